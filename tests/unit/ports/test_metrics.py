"""What a log tells of itself while it works: groups, syncs, and what it refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvwal.errors import CommitUnknown, LogFailed, StorageFull
from tests.support.disk.faults import FakeClock, FakeDisk, open_store


class Heard:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.groups: list[tuple[int, int, float, float]] = []
        self.syncs: list[float] = []
        self.refusals: list[tuple[str, int]] = []

    def group(self, entries: int, size: int, queued: float, seconds: float) -> None:
        self.groups.append((entries, size, queued, seconds))

    def synced(self, seconds: float) -> None:
        self.syncs.append(seconds)

    def refused(self, reason: str, submissions: int) -> None:
        self.refusals.append((reason, submissions))


class SlowDisk(FakeDisk):
    """A disk on which each fdatasync takes two seconds of the clock, from a moment on."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock
        self.slow = False

    def enter(self, call: str, path: Path) -> None:
        super().enter(call, path)
        if call == "datasync" and self.slow:
            self.clock.seconds += 2


def test_groups_and_syncs_are_heard_with_what_they_took(tmp_path: Path) -> None:
    clock, heard = FakeClock(), Heard()
    disk = SlowDisk(clock)
    with open_store(tmp_path, disk, clock, metrics=heard) as store:
        jobs = store.map("jobs")
        disk.slow = True
        jobs.put_many({"a": b"x" * 1000, "b": 1})
        assert not jobs.replace("a", 1, 2)
        assert len(heard.groups) == 2
        entries, size, queued, seconds = heard.groups[0]
        assert (entries, queued, seconds) == (2, 0, 2)
        assert 1000 < size < 1200
        assert heard.groups[1][:2] == (0, 0), "a condition that did not hold has nothing to write"
        assert heard.syncs == [2]
        assert not heard.refusals


def test_refusals_are_heard_by_their_reason(tmp_path: Path) -> None:
    disk, heard = FakeDisk(), Heard()
    with open_store(tmp_path, disk, metrics=heard) as store:
        jobs = store.map("jobs")
        disk.full = True
        with pytest.raises(StorageFull):
            jobs.put_many({str(number): b"x" * 100_000 for number in range(10)})
        disk.full = False
        disk.fail("datasync")
        with pytest.raises(CommitUnknown):
            jobs["a"] = 1
        with pytest.raises(LogFailed):
            jobs["a"] = 2
    assert heard.refusals == [("StorageFull", 1), ("CommitUnknown", 1), ("LogFailed", 1)]
    assert not heard.groups
