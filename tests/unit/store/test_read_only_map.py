"""The map of a store that only reads: what of it is loaded, and when."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import KvwalError

VALUE = b"v" * 1000
KEYS = 20_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    settings = kvwal.Settings(segment_bytes=1 << 20, checkpoint_seconds=1e6, reserve_bytes=0)
    with kvwal.open(tmp_path, archive=None, flush="os", settings=settings) as store:
        jobs = store.map("jobs")
        for first in range(0, KEYS, 1000):
            jobs.put_many({f"key-{number}": VALUE for number in range(first, first + 1000)})
        jobs.put("key-0", "again")
    return tmp_path


@pytest.fixture
def peak() -> Iterator[Callable[[], int]]:
    """The most bytes that Python had at once since the last call."""
    tracemalloc.start()

    def read() -> int:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        return most

    yield read
    tracemalloc.stop()


def test_the_history_of_a_key_does_not_load_the_map(root: Path, peak: Callable[[], int]) -> None:
    jobs = kvwal.open(root, archive=None, read_only=True).map("jobs")
    changes = jobs.history("key-0")  # imports what it needs
    peak()
    assert jobs.history("key-0") == changes
    assert len(changes) == 2
    without = peak()
    assert len(jobs) == KEYS
    assert without < 8 << 20, "the history held more than a segment"
    assert peak() > KEYS * len(VALUE)


def test_a_map_shows_the_moment_of_its_first_read(root: Path) -> None:
    jobs = kvwal.open(root, archive=None, read_only=True).map("jobs")
    with kvwal.open(root, archive=None) as store:
        store.map("jobs").put("late", 1)
        assert jobs["late"] == 1
        store.map("jobs").put("late", 2)
    assert jobs["late"] == 1


def test_a_read_that_failed_is_tried_again(root: Path) -> None:
    jobs: Any = kvwal.open(root, archive=None, read_only=True).map("jobs")
    segment = min(root.rglob("*.wal"))
    whole = segment.read_bytes()
    segment.write_bytes(b"?" * 64 + whole[64:])
    with pytest.raises(KvwalError, match=segment.name):
        len(jobs)
    segment.write_bytes(whole)
    assert len(jobs) == KEYS
    assert jobs.at(datetime.now().astimezone() - timedelta(days=1)).get("key-0") is None
