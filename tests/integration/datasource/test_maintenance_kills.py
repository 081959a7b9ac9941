"""Executors and drivers that are killed in the middle of a rewrite, a base or a restore: run again, the result is right."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvwal.errors import ConfigError
from kvwal.location.opening import Names, open_reader
from kvwal.location.parse import FolderLocation
from kvwal_archive.bases.select import LogRead, newest_base
from kvwal_archive.layout import Span
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.reader import live_objects
from kvwal_archive.verify import verify
from kvwal_archive.view import latest, parts
from tests.support.archive.history import PLACE, fill, from_table, place
from tests.support.datasource.drivers import drive

WHERE = (PLACE.namespace, PLACE.cluster, PLACE.business)
PLACES = [PLACE, place("other")]
SPANS = [(1, 200), (201, 400), (401, 600)]


@contextmanager
def reading(objects: Objects) -> Iterator[None]:
    """A reader that reads the latest rows all the time, and must always find the same."""
    expected, ended, reads = latest(objects, *WHERE), threading.Event(), []

    def read() -> None:
        while not ended.is_set():
            reads.append(latest(objects, *WHERE).equals(expected))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()
    assert len(reads) > 1
    assert all(reads)


def maintain(what: str, whom: str, folder: Path) -> int:
    """Do it in a driver of its own, with a kill; returns how the driver ended."""
    ended = drive("maintenance", folder, what, whom, folder)
    assert (folder / f"killed-{whom}").exists(), ended.stderr[-3000:]
    return ended.returncode


def restored(folder: Path) -> list[tuple[str, bytes, bytes]]:
    """The live entries of the restored store."""
    with open_reader(FolderLocation(folder / "root"), Names(PLACE.namespace, PLACE.cluster)) as store:
        return sorted(
            (entry.key_class, entry.key, entry.value) for entry in store.read_business(PLACE.business).entries()
        )


@pytest.mark.long
@pytest.mark.parametrize("what", ["rewrite", "base", "restore"])
def test_a_killed_driver_leaves_no_half_and_a_killed_executor_costs_nothing(what: str, tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path / "archive"))
    for node in PLACES:
        fill(objects, node, SPANS, keys=50)
    live = [row for row in from_table(latest(objects, *WHERE)) if not row.deleted]
    with reading(objects):
        assert maintain(what, "driver", tmp_path) == -signal.SIGKILL
        if what == "restore":
            with pytest.raises(ConfigError):
                restored(tmp_path)
        assert maintain(what, "executor", tmp_path) == 0
    assert [fault for node in PLACES for fault in verify(objects, node).findings] == []
    if what == "rewrite":
        assert [[info.span for info in live_objects(objects, node)] for node in PLACES] == [[Span(1, 600)]] * 2
    elif what == "base":
        base = newest_base(objects, WHERE, {part.place.node: LogRead(part.infos) for part in parts(objects, *WHERE)})
        assert base is not None
        assert {position.sequence for position in base.positions.values()} == {600}
    else:
        assert restored(tmp_path) == sorted((row.key_class, row.key, row.value) for row in live)
