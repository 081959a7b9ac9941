"""Requests of the archiver's jobs: a job looks at the archive once, and reads nothing twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kvwal
from benchmarks.scale import COMPACTION_LISTS
from kvwal.archiver.jobs import ArchiveTarget, Compact, Compacted
from kvwal.archiver.work import answer
from kvwal_archive.maintenance.compaction import gc
from kvwal_archive.objects import LocalObjects
from tests.support.archive.archiver import PLACE, business
from tests.support.archive.history import PLACE as FILLED
from tests.support.archive.history import fill
from tests.support.log.store import open_with_archiver

ARCHIVE_LISTS = 2
"""List requests of an archive job."""
COUNTED = ("list", "read", "open", "read_ranges", "put_if_absent", "confirm", "fetch", "delete")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each request was made of a store of objects."""
    counts: Counter[str] = Counter()
    for name in COUNTED:
        real = getattr(LocalObjects, name)

        def counted(self: LocalObjects, *given: Any, _name: str = name, _real: Any = real) -> Any:
            counts[_name] += 1
            return _real(self, *given)

        monkeypatch.setattr(LocalObjects, name, counted)
    return counts


def test_an_archive_job_looks_before_its_put_and_after_it(tmp_path: Path, asked: Counter[str]) -> None:
    """Two listings, one put, and its confirmation, however many objects the log has: their footers and `_log` are known.

    The look after the put is what refuses a copy of the log, and a log that another one took over.
    """
    settings = kvwal.Settings(archive_seconds=1e6, checkpoint_seconds=1e6)
    with open_with_archiver(tmp_path / "root", tmp_path / "archive", settings=settings) as store:
        b = store.map("b")
        for number in range(7):
            b["key"] = number
            store.archive()
        assert len(LocalObjects(str(tmp_path / "archive")).list(f"{PLACE.prefix}/0")) == 7
        b["key"] = "last"
        asked.clear()
        made = business(store)["archive_requests"]
        store.archive()
        made = business(store)["archive_requests"] - made
    # The footer of the object of the job before is read once. A local store confirms a put by a read.
    assert asked["list"] == ARCHIVE_LISTS
    assert asked["put_if_absent"] == asked["confirm"] == 1
    assert asked["read_ranges"] <= 1
    assert asked["read"] == 0
    assert made == ARCHIVE_LISTS + 2 + asked["read_ranges"]


def test_a_compaction_lists_a_few_times_however_many_objects_it_has(tmp_path: Path, asked: Counter[str]) -> None:
    fill(LocalObjects(str(tmp_path)), FILLED, [(first, first + 9) for first in range(1, 400, 10)])
    asked.clear()
    done = answer(Compact(ArchiveTarget(str(tmp_path), FILLED, ""), str(tmp_path), 0, 0))
    assert isinstance(done, Compacted)
    assert done.written == 1
    assert asked["list"] <= COMPACTION_LISTS


def test_gc_lists_once_for_all_objects(tmp_path: Path, asked: Counter[str]) -> None:
    objects = LocalObjects(str(tmp_path))
    fill(objects, FILLED, [(first, first + 9) for first in range(1, 200, 10)])
    asked.clear()
    gc(objects, FILLED, now_ms=1 << 46, grace_ms=0)
    assert asked["list"] <= 3
