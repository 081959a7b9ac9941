"""The shared reader of the console: one location for all requests, opened again after an error."""

from __future__ import annotations

import asyncio
from threading import Barrier, Thread

import pytest

from kvwal.console.shared_reader import (
    View,
)
from kvwal.errors import ArchiveError, BeforeHistory, ConfigError
from tests.support.console.location import Setting, make


def fail(view: View) -> None:
    raise ArchiveError("an object is damaged.")


def mistype(view: View) -> None:
    raise ConfigError("there is no such application.")


def ask_too_early(view: View) -> None:
    raise BeforeHistory("only the latest entry of each key was kept.")


def test_requests_that_come_together_have_one_of_them_open_and_make(setting: Setting) -> None:
    start, found = Barrier(8), []

    def ask() -> None:
        start.wait()
        found.append(setting.made())

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 8
    assert setting.location.opened == 1


def test_an_error_of_the_store_has_the_next_request_open_it_again(setting: Setting) -> None:
    setting.made()
    with pytest.raises(ArchiveError), setting.reads.view() as view:
        fail(view)
    assert (setting.location.opened, setting.location.closed) == (1, 1)
    assert setting.made() == 2
    assert setting.location.opened == 2


def test_an_error_of_the_question_leaves_the_location_open(setting: Setting) -> None:
    for error, ask in ((ConfigError, mistype), (BeforeHistory, ask_too_early)):
        with pytest.raises(error), setting.reads.view() as view:
            ask(view)
    setting.made()
    assert setting.location.opened == 1


def test_a_failed_location_is_closed_after_the_last_request_that_reads_it(setting: Setting) -> None:
    with setting.reads.view() as view:
        with pytest.raises(ArchiveError), setting.reads.view() as other:
            fail(other)
        assert setting.location.closed == 0
        assert view.made(make) == 1
    assert setting.location.closed == 1


def test_a_store_that_was_away_and_is_back_is_read(setting: Setting) -> None:
    setting.location.away = True
    with pytest.raises(ArchiveError):
        asyncio.run(setting.reads.ask(lambda view: view.made(make)))
    setting.location.away = False
    assert asyncio.run(setting.reads.ask(lambda view: view.made(make))) == 1
