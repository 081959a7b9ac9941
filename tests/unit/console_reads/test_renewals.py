"""The shared reader of the console: answers that are made in the background, while all take those of before."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path
from threading import Semaphore, Thread
from typing import Any

import pytest

import kvwal
from kvwal.console.shared_answer import UNCHANGED_SECONDS
from kvwal.console.shared_reader import ARCHIVED_FRESH_SECONDS, SharedReader
from kvwal.errors import ArchiveError
from kvwal.location.readers import LocationReader
from kvwal.ports.tasks import ThreadWorkers
from kvwal.spark import index
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Application, to_value
from kvwal.store.sync import ReadOnlyStore
from tests.support.console.location import ArchivedSetting, Setting, SlowAnswer, make, renewed
from tests.support.disk.faults import FakeClock, make_options
from tests.support.polling import until


def test_all_take_the_answer_of_before_while_the_next_is_made(setting: Setting) -> None:
    slow = SlowAnswer(setting.clock)
    assert setting.ask(slow) == 1
    setting.clock.seconds += 19
    slow.hold()
    assert setting.ask(slow) == 1
    assert slow.begins.wait(60)
    assert [setting.ask(slow), setting.ask(slow)] == [1, 1]
    slow.release()
    renewed(setting.reads)
    assert (setting.ask(slow), slow.made) == (2, 2)
    setting.clock.seconds += 41
    assert setting.ask(slow) == 3, "what is too old serves nobody"


def test_an_answer_in_the_making_is_not_begun_again_when_something_is_written(setting: Setting) -> None:
    """It would be made again each second, by one more request each time, and never end."""
    slow, asked, found = SlowAnswer(setting.clock, 0), Semaphore(0), list[int]()
    slow.hold()

    def ask() -> None:
        with setting.reads.view() as view:
            asked.release()
            found.append(view.made(slow))

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
        assert asked.acquire(timeout=60)
        assert slow.begins.wait(60)
        setting.clock.seconds += 2
        setting.made()  # the location is looked at, and the generation ends
    slow.release()
    for thread in threads:
        thread.join()
    assert (found, slow.made) == ([1] * 4, 1)


def test_an_error_in_the_background_is_met_by_a_request(setting: Setting) -> None:
    fails = [False]

    def make_slowly(reader: LocationReader) -> int:
        setting.clock.seconds += 2
        if fails[0]:
            raise ArchiveError("an object is damaged.")
        return make(reader)

    assert setting.ask(make_slowly) == 1
    setting.clock.seconds += 19
    fails[0] = True
    assert setting.ask(make_slowly) == 1
    renewed(setting.reads)
    assert setting.location.opened == 1, "all else goes on"
    with pytest.raises(ArchiveError):
        setting.ask(make_slowly)
    fails[0] = False
    assert (setting.ask(make_slowly), setting.location.opened) == (2, 2)


def test_what_is_to_be_made_in_the_background_is_not_made_after_the_end(setting: Setting) -> None:
    slow = SlowAnswer(setting.clock)

    def another(reader: LocationReader) -> int:
        return slow(reader)

    assert [setting.ask(slow), setting.ask(another)] == [1, 2]
    setting.clock.seconds += 21
    slow.hold()
    assert [setting.ask(slow), setting.ask(another)] == [1, 2]
    assert slow.begins.wait(60)
    closing = Thread(target=setting.reads.close)
    closing.start()
    until(lambda: setting.reads._closes or None)
    slow.release()
    closing.join()
    assert slow.made == 3


def test_threads_take_short_turns_while_an_answer_is_made_in_the_background(setting: Setting) -> None:
    """Also an answer that fails."""
    usual, turns = sys.getswitchinterval(), list[float]()

    def make_slowly(reader: LocationReader) -> float:
        setting.clock.seconds += 2
        turns.append(sys.getswitchinterval())
        if len(turns) == 3:
            raise ArchiveError("an object is damaged.")
        return turns[-1]

    for _ in range(3):
        assert setting.ask(make_slowly) > 0
        renewed(setting.reads)
        assert sys.getswitchinterval() == usual
        setting.clock.seconds += 19
    assert turns[0] == usual
    assert [turn < usual / 5 for turn in turns[1:]] == [True, True]


def test_a_list_is_never_made_from_the_records_of_before(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even while the next records are read: others may take those of before meanwhile."""
    slow = SlowAnswer(setting.clock)
    monkeypatch.setattr("kvwal.console.shared_reader._records", slow)

    def records() -> Any:
        with setting.reads.view() as view:
            return view.records

    assert records() == 1
    setting.clock.seconds += 19
    slow.hold()
    assert records() == 1
    assert slow.begins.wait(60)
    listed: list[Any] = []

    def ask() -> None:
        with setting.reads.view() as view:
            listed.append(view.made_of_records(lambda records: records))

    asking = Thread(target=ask)
    asking.start()
    assert records() == 1
    slow.release()
    asking.join()
    assert listed == [2]


def test_a_list_that_takes_long_is_made_from_the_records_of_its_time(tmp_path: Path) -> None:
    """Also where people ask all the time, so that each list stands in for the next one."""
    clock = FakeClock()
    with kvwal.open(tmp_path, archive=None) as store:
        reads = SharedReader(lambda: ReadOnlyStore(make_options(tmp_path)), ThreadWorkers("test", 2), clock)

        def listed(records: RecordReader) -> list[str]:
            clock.seconds += 0.2
            return [prefix for prefix, _ in records.applications()]

        found = []
        for number in range(8):
            record = to_value(Application(id=f"app-{number}", name="report", started=number))
            entries = {f"app-{number}/app": record}
            store.map("spark").put_many(
                entries | index.index_entries(entries) | index.mark_of(store.map("spark"), store.node or "")
            )
            clock.seconds += 2.5
            for _ in range(2):
                with reads.view() as view:
                    newest = view.made_of_records(listed)
                renewed(reads)
            found.append(newest)
    reads.close()
    assert [len(each) for each in found] == list(range(1, 9))


def test_others_need_not_wait_for_an_answer_that_nothing_has_changed(archived: ArchivedSetting) -> None:
    slow = SlowAnswer(archived.clock, 0)
    assert [archived.ask(slow, seconds) for seconds in (0.0, 11.0, 22.0)] == [1, 2, 2]
    slow.hold()
    later = 11.0 + UNCHANGED_SECONDS + ARCHIVED_FRESH_SECONDS
    assert archived.ask(slow, later) == 2
    assert slow.begins.wait(60)
    assert archived.ask(slow, later) == 2
    slow.release()
    renewed(archived.reads)
    assert archived.ask(slow, later) == 3


def test_what_pages_have_shown_goes_when_the_next_answer_is_made(setting: Setting) -> None:
    """A page is a cycle of references, which holds what it has shown."""
    gone: list[weakref.ref[Shown]] = []

    def show(reader: LocationReader) -> float:
        setting.clock.seconds += 20
        shown = Shown()
        shown.page = shown
        gone.append(weakref.ref(shown))
        return setting.clock.seconds

    enabled = gc.isenabled()
    gc.disable()
    try:
        setting.ask(show)
        setting.clock.seconds += 210
        setting.ask(show)
        renewed(setting.reads)
        assert [one() for one in gone] == [None, None]
    finally:
        if enabled:
            gc.enable()


class Shown:
    """What a page shows."""

    page: Shown
