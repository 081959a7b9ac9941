"""File descriptors: logs that rest hold none, a log that needs one and finds none refuses, and is not poisoned."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.config import Settings
from kvwal.errors import CommitUnknown, LogFailed, StorageFull, StoreLocked
from kvwal.ports.descriptors import Descriptors
from kvwal.ports.disk import File, Folder
from kvwal.ports.posix.file_locks import is_held
from tests.repository.source import ROOT
from tests.support.disk.faults import FakeDisk, open_store

SMALL = Settings(segment_bytes=64 << 10)
LARGE = b"x" * (30 << 10)


def fill(jobs: MutableMapping[Any, Any]) -> None:
    for number in range(10):
        jobs[number] = LARGE


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


class CrowdedDisk(FakeDisk):
    """The process has no descriptor for the calls named in `none`."""

    def __init__(self) -> None:
        super().__init__()
        self.none: set[str] = set()

    def _look(self, call: str, path: Path) -> None:
        if call in self.none:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    def create(self, path: Path) -> File:
        self._look("create", path)
        return super().create(path)

    def open(self, path: Path) -> File:
        self._look("open", path)
        return super().open(path)

    def open_folder(self, folder: Path) -> Folder:
        self._look("open_folder", folder)
        return super().open_folder(folder)


@pytest.mark.parametrize("call", ["create", "open", "open_folder"])
def test_a_rotation_without_a_descriptor_is_refused_and_poisons_nothing(tmp_path: Path, call: str) -> None:
    disk = CrowdedDisk()
    with open_store(tmp_path, disk, settings=SMALL) as store:
        jobs = store.map("jobs")
        jobs["a"] = LARGE
        if call == "open":
            jobs._business.log.appender.close_idle(sync=True)  # type: ignore[attr-defined]
        disk.none = {call}
        with pytest.raises(StorageFull, match="no file descriptor"):
            fill(jobs)
        with pytest.raises(StorageFull):
            store.checkpoint()
        disk.none.clear()
        jobs["b"] = LARGE
        assert store.stats()["businesses"]["jobs"]["failed"] is None
        held = dict(jobs)
    with open_store(tmp_path) as store:
        assert dict(store.map("jobs")) == held


def test_a_log_that_rests_holds_no_descriptor_and_wakes_at_its_next_write(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("first")["a"] = 0
        before = open_files()
        maps = [store.map(f"map-{number}") for number in range(50)]
        assert open_files() <= before + 2, "logs that nobody wrote to"
        for each in maps:
            each["a"] = 1
        assert open_files() >= before + 50
        for each in maps:
            each._business.log.appender.close_idle(sync=False)  # type: ignore[attr-defined]
        assert open_files() <= before + 2
        for each in maps:
            each["b"] = 2
            assert dict(each) == {"a": 1, "b": 2}
    with kvwal.open(tmp_path, archive=None) as store:
        assert dict(store.map("map-7")) == {"a": 1, "b": 2}


class Resting:
    """A holder that counts."""

    def __init__(self, budget: Descriptors, *, busy: bool = False) -> None:
        self.used = False
        self.is_open = False
        self._budget = budget
        self._busy = busy

    def use(self) -> None:
        self.used = True
        if not self.is_open:
            self.is_open = True
            self._budget.opened(self)

    def close_idle(self, *, sync: bool) -> bool:
        if self._busy or not self.is_open:
            return False
        self.is_open = False
        self._budget.closed(self)
        return True


def test_logs_hold_half_of_the_limit_and_who_was_used_lately_stays() -> None:
    budget = Descriptors(lambda: 20, lambda: 15)
    often, busy = Resting(budget), Resting(budget, busy=True)
    others = [Resting(budget) for _ in range(30)]
    busy.use()
    for each in others:
        often.use()
        each.use()
    found = budget.budget()
    assert (found.limit, found.free, found.reserve, found.logs, found.short) == (20, 5, 2, 10, False)
    assert busy.is_open
    assert often.is_open
    assert sum(each.is_open for each in others) == 8
    budget.close_idle_descriptors()
    budget.close_idle_descriptors()
    assert budget.budget().logs == 1, "one is in use"


def test_a_map_too_many_is_refused_and_what_is_open_goes_on(tmp_path: Path) -> None:
    count = [0]
    with open_store(tmp_path, descriptors=Descriptors(lambda: 100, lambda: count[0])) as store:
        first = store.map("first")
        count[0] = 95
        with pytest.raises(StorageFull, match="5 of 100 file descriptors are free, and 12 are kept"):
            store.map("second")
        first["a"] = 1
        assert store.stats()["descriptors"]["free"] == 5
        count[0] = 50
        store.map("second")["a"] = 2


MANY = """
import resource, sys
import kvwal
limit, count = int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
for turn in range(2):
    with kvwal.open(sys.argv[1], archive=None) as store:
        for number in range(count):
            each = store.map(f"map-{number}")
            assert each.get("turn", 0) == turn
            each["turn"] = turn + 1
        for number in range(count):
            store.map(f"map-{number}")["again"] = turn
        found = store.stats()
        assert not any(each["failed"] for each in found["businesses"].values())
        print(found["descriptors"]["free"])
"""


def test_many_more_maps_than_descriptors(tmp_path: Path) -> None:
    """`KVWAL_MAPS=3000 KVWAL_FILES=1024` is the size of the promise; here it is a sample."""
    files, maps = os.environ.get("KVWAL_FILES", "64"), os.environ.get("KVWAL_MAPS", "150")
    command = [sys.executable, "-c", MANY, str(tmp_path / "root"), files, maps]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert all(int(free) >= int(files) // 8 for free in told.stdout.split())


CHILD = """
import sys
import kvwal
try:
    with kvwal.open(sys.argv[1], archive=None) as store:
        store.map(sys.argv[2])["from"] = "child"
        print("written")
except kvwal.StoreLocked as error:
    print(error)
"""


def child(root: Path, business: str) -> str:
    command = [sys.executable, "-c", CHILD, str(root), business]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_a_resting_log_is_held_against_other_processes_and_against_this_one(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        jobs._business.log.appender.close_idle(sync=True)  # type: ignore[attr-defined]
        assert f"the log is held by pid {os.getpid()}" in child(tmp_path, "jobs")
        assert child(tmp_path, "other").strip() == "written", "a business of its own"
        with kvwal.open(tmp_path, archive=None) as second, pytest.raises(StoreLocked, match=f"pid {os.getpid()}"):
            second.map("jobs")
        assert is_held(tmp_path / "default" / "local" / "jobs" / "local" / "LOCK")
        pid = os.fork()
        if not pid:
            del store, jobs
            os._exit(0)
        os.waitpid(pid, 0)
        assert "the log is held by" in child(tmp_path, "jobs"), "a child that ends takes nothing with it"
    assert child(tmp_path, "jobs").strip() == "written"


def test_an_fdatasync_that_fails_when_a_log_goes_to_rest_poisons_it(tmp_path: Path) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk, flush="os") as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        disk.fail("datasync")
        assert not jobs._business.log.appender.close_idle(sync=True)  # type: ignore[attr-defined]
        with pytest.raises((CommitUnknown, LogFailed)):
            jobs["b"] = 2
        with pytest.raises(LogFailed):
            jobs["c"] = 3
