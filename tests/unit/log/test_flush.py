"""When a write is acknowledged: what each flush policy does to the disk before, counted on the disk itself."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.config import Flush, Interval
from kvwal.errors import ConfigError
from kvwal.structures.map.map import Map
from tests.support.disk.faults import FakeDisk, open_store

NEVER = Interval(ms=3_600_000, bytes=1 << 40)


def opened(root: Path, flush: Flush) -> tuple[kvwal.Store, Map, FakeDisk]:
    disk = FakeDisk()
    store = open_store(root, disk, flush=flush)
    jobs = store.map("jobs")
    disk.log.clear()
    disk.calls.clear()
    return store, jobs, disk


CHANGES: list[Callable[[Map], Any]] = [
    lambda jobs: jobs.put("a", 2),
    lambda jobs: jobs.put_many({"a": 3, "b": 3}),
    lambda jobs: jobs.submit("a", 4).result(),
    lambda jobs: jobs.put_if_absent("c", 1),
    lambda jobs: jobs.replace("a", 4, 5),
    lambda jobs: jobs.delete("a"),
    lambda jobs: jobs.pop("b"),
    lambda jobs: jobs.clear(),
]


def test_sync_is_a_datasync_between_each_write_and_its_acknowledgement(tmp_path: Path) -> None:
    store, jobs, disk = opened(tmp_path, "sync")
    with store:
        for number, change in enumerate(CHANGES, 1):
            change(jobs)
            assert disk.log == ["write_at", "datasync"] * number


def test_sync_acknowledges_threads_together_and_none_before_its_datasync(tmp_path: Path) -> None:
    store, jobs, disk = opened(tmp_path, "sync")
    with store, ThreadPoolExecutor(8) as pool:
        for number in range(20):
            disk.hold("datasync")
            futures = list(pool.map(lambda name: jobs.submit(name, b"x"), range(8 * number, 8 * number + 8)))
            disk.wait_for("held datasync", number + 1)
            assert not any(future.done() for future in futures)
            disk.go_on()
            for future in futures:
                assert future.result()
        assert len(jobs) == 160
        assert disk.calls["write_at"] == disk.calls["datasync"] < 160


@pytest.mark.parametrize("flush", ["os", NEVER], ids=["os", "interval"])
def test_the_others_acknowledge_after_the_write(tmp_path: Path, flush: Flush) -> None:
    store, jobs, disk = opened(tmp_path, flush)
    with store:
        for number, change in enumerate(CHANGES, 1):
            change(jobs)
            assert disk.log == ["write_at"] * number
    assert disk.calls["datasync"] >= 2, "a clean close makes it all durable, then its seal"


@pytest.mark.parametrize("flush", ["os", NEVER], ids=["os", "interval"])
@pytest.mark.parametrize(
    "change",
    [
        lambda jobs: jobs.put("b", 1, sync=True),
        lambda jobs: jobs.put_many({"b": 1}, sync=True),
        lambda jobs: jobs.delete("a", sync=True),
    ],
    ids=["put", "put_many", "delete"],
)
def test_one_call_can_force_it(tmp_path: Path, flush: Flush, change: Callable[[Map], Any]) -> None:
    store, jobs, disk = opened(tmp_path, flush)
    with store:
        jobs["a"] = 1
        change(jobs)
        assert disk.log == ["write_at", "write_at", "datasync"]
        jobs["a"] = 2
        assert disk.log[-1] == "write_at"


def test_a_forced_call_without_entries_makes_what_came_before_durable(tmp_path: Path) -> None:
    store, jobs, disk = opened(tmp_path, "os")
    with store:
        timestamp = jobs.put("a", 1)
        assert jobs.put_many({}, sync=True) == timestamp
        assert disk.log == ["write_at", "datasync"]


def test_interval_by_bytes(tmp_path: Path) -> None:
    store, jobs, disk = opened(tmp_path, Interval(ms=3_600_000, bytes=1000))
    with store:
        for number in range(3):
            jobs[number] = b"x" * 280
        assert disk.calls["datasync"] == 0
        jobs[3] = b"x" * 280
        assert disk.log == ["write_at"] * 4 + ["datasync"]
        jobs[4] = b"x" * 280
        assert disk.log[-1] == "write_at"


def test_interval_by_time(tmp_path: Path) -> None:
    store, jobs, disk = opened(tmp_path, Interval(ms=1, bytes=1 << 40))
    with store:
        jobs["a"] = 1
        disk.wait_for("datasync", 1)
        jobs["b"] = 1
        disk.wait_for("datasync", 2)


def test_a_business_may_have_a_policy_of_its_own(tmp_path: Path) -> None:
    store, _, disk = opened(tmp_path, "sync")
    with store:
        fast = store.map("fast", flush="os")
        disk.log.clear()
        fast["a"] = 1
        assert disk.log == ["write_at"]
        store.map("jobs")["a"] = 1
        assert disk.log == ["write_at", "write_at", "datasync"]
        assert store.map("fast", flush="os")["a"] == 1
        with pytest.raises(ConfigError, match="flush='os'"):
            store.map("fast", flush="sync")


@pytest.mark.parametrize("flush", ["fsync", None, 1, True], ids=str)
def test_what_is_no_policy_is_refused(tmp_path: Path, flush: Any) -> None:
    with pytest.raises(ConfigError, match="no flush policy"):
        kvwal.open(tmp_path, flush=flush)


@pytest.mark.parametrize("given", [{"ms": 0}, {"bytes": 0}, {"ms": -1}], ids=str)
def test_an_interval_needs_both_limits(given: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        Interval(**given)
