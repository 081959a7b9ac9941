"""A store of large values, on a disk and a clock that a file of tests may choose, as well as what counts as large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvwal.config import Settings
from kvwal.store.sync import WritableStore
from kvwal.structures.map.map import Map
from tests.support.disk.faults import FakeClock, FakeDisk, open_store


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def clock() -> FakeClock | None:
    """None: that of the machine."""
    return None


@pytest.fixture
def settings() -> Settings:
    return Settings(inline_bytes=100)


@pytest.fixture
def store(tmp_path: Path, disk: FakeDisk, clock: FakeClock | None, settings: Settings) -> Iterator[WritableStore]:
    with open_store(tmp_path / "root", disk, clock, settings=settings) as store:
        yield store


@pytest.fixture
def jobs(store: WritableStore) -> Map:
    return store.map("jobs")
