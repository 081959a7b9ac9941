"""A million small entries that are all alike, through every form that a store gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.ports.clock import SYSTEM
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction
from kvwal_archive.objects import open_objects
from kvwal_archive.reader import live_objects
from kvwal_archive.verify import verify

COUNT, IN_ONE = 1_000_000, 25_000
VALUE = {"state": "DONE"}


def key(number: int) -> str:
    return f"job-{number:07}"


def check(jobs: Any) -> None:
    """All entries are there: their number, each of their keys in order, and their values."""
    assert len(jobs) == COUNT
    for number, (found, value) in enumerate(jobs.scan("job-")):
        assert found == key(number)
        assert value == VALUE
    assert number == COUNT - 1
    assert sum(1 for _ in jobs.scan("job-00099")) == 100


@pytest.mark.long
@pytest.mark.timeout(3600)  # a minute or two; ten times that beside other tests
def test_a_million_alike_entries_are_checkpointed_archived_compacted_and_restored(tmp_path: Path) -> None:
    archive, place = tmp_path / "archive", Place("default", "local", "jobs", "local")
    settings = kvwal.Settings(archive_seconds=1e6, checkpoint_seconds=1e6)
    with kvwal.open(tmp_path / "root", archive=archive, flush="os", settings=settings) as store:
        jobs = store.map("jobs")
        for start in range(0, COUNT, IN_ONE):
            jobs.put_many({key(number): VALUE for number in range(start, start + IN_ONE)})
            if start == COUNT // 2:
                store.archive()
        store.checkpoint()
        store.archive()
        check(jobs)
    objects = open_objects(str(archive))
    assert len(live_objects(objects, place)) > 1
    assert compaction.rewrite(objects, place, now_ms=SYSTEM.wall_ms() + 1000, history_ms=0, force=True)
    assert [(info.span.first, info.span.last) for info in live_objects(objects, place)] == [(1, COUNT)]
    compaction.gc(objects, place, now_ms=SYSTEM.wall_ms() + 10_000, grace_ms=0)
    assert verify(objects).findings == []
    kvwal.restore(archive, tmp_path / "restored", node="restored")
    kvwal.restore(archive, tmp_path / "taken over", node="local", take_over=True)
    for root in ("root", "restored", "taken over"):
        with kvwal.open(tmp_path / root, archive=None, flush="os", settings=settings) as store:
            check(store.map("jobs"))
            store.checkpoint()
        with kvwal.open(tmp_path / root, archive=None, read_only=True) as store:
            check(store.map("jobs"))
