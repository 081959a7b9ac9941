"""After a failed write or fsync nobody is told that all is well: the log is poisoned, reading goes on, a reopen recovers."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from kvwal.config import Interval, Settings
from kvwal.errors import CommitUnknown, ConfigError, LogFailed
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.reader import entry_decoder
from kvwal.ports.clock import SYSTEM
from tests.support.disk.faults import FakeDisk, open_aio, open_store
from tests.support.log.logs import Writer

CALLS = ["write_at", "datasync"]
SMALL = Settings(segment_bytes=64 << 10)
LARGE = b"x" * (30 << 10)


def reopened(root: Path) -> dict[Any, Any]:
    with open_store(root) as store:
        return dict(store.map("jobs"))


@pytest.mark.parametrize("call", CALLS)
def test_the_group_in_flight_is_unknown_and_what_comes_later_fails(tmp_path: Path, call: str) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        disk.fail(call)
        with pytest.raises(CommitUnknown, match="whole, or not at all") as unknown:
            jobs.put_many({"a": 2, "b": 2})
        assert isinstance(unknown.value.__cause__, OSError)
        calls = disk.calls["write_at"]
        later = [
            lambda: jobs.put("c", 3), lambda: jobs.delete("a"), lambda: jobs.put_if_absent("d", 1), lambda: jobs.pop("a"),
            lambda: jobs.put_if_absent("a", 1), lambda: jobs.submit("e", 1).result(), store.checkpoint,
        ]  # fmt: skip
        for change in later:
            with pytest.raises(LogFailed, match="reopen") as failed:
                change()
            assert type(failed.value) is LogFailed
            assert isinstance(failed.value.__cause__, OSError)
        assert disk.calls["write_at"] == calls, "nothing is tried again on that file"
        assert dict(jobs) == {"a": 1}
        assert "Input/output error" in store.stats()["businesses"]["jobs"]["failed"]
    assert reopened(tmp_path) in ({"a": 1}, {"a": 2, "b": 2})


@pytest.mark.parametrize("call", CALLS)
def test_everybody_in_the_group_is_told(tmp_path: Path, call: str) -> None:
    async def main() -> None:
        disk = FakeDisk()
        async with open_aio(tmp_path, disk) as store:
            jobs = store.map("jobs")
            await jobs.put("a", 1)
            disk.fail(call)
            together = [jobs.put(name, 2) for name in "bcd"] + [jobs.put_if_absent("a", 2)]
            answers = await asyncio.gather(*together, return_exceptions=True)
            assert [type(answer) for answer in answers] == [CommitUnknown] * 4
            assert await jobs.count() == 1

    asyncio.run(main())
    assert reopened(tmp_path) in ({"a": 1}, {"a": 1, "b": 2, "c": 2, "d": 2})


@pytest.mark.parametrize("call", [*CALLS, "allocate"])
@pytest.mark.parametrize("nth", range(1, 9))
def test_wherever_the_disk_fails_what_was_acknowledged_is_recovered(tmp_path: Path, call: str, nth: int) -> None:
    """Every second put rotates, so that seals, headers and renames are hit too."""
    disk = FakeDisk()
    acknowledged: dict[int, bytes] = {}
    with open_store(tmp_path, disk, settings=SMALL) as store:
        jobs = store.map("jobs")
        disk.fail(call, nth)
        failures: list[type[LogFailed]] = []
        for number in range(12):
            try:
                jobs[number] = LARGE
            except LogFailed as error:
                failures.append(type(error))
            else:
                assert not failures, "nothing is acknowledged any more"
                acknowledged[number] = LARGE
        assert dict(jobs) == acknowledged
    if disk.calls[f"failed {call}"]:
        assert failures[0] is CommitUnknown
        assert set(failures[1:]) <= {LogFailed}
    found = reopened(tmp_path)
    assert found.items() >= acknowledged.items()
    assert set(found) <= {*acknowledged, len(acknowledged)}


def test_a_failed_flush_under_interval_fails_what_comes_later(tmp_path: Path) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk, flush=Interval(ms=1)) as store:
        jobs = store.map("jobs")
        disk.fail("datasync")
        jobs["a"] = 1
        disk.wait_for("failed datasync", 1)
        with pytest.raises(LogFailed):
            jobs["b"] = 1
        assert dict(jobs) == {"a": 1}
    assert reopened(tmp_path) == {"a": 1}


def test_a_failing_close_still_lets_go_of_the_lock(tmp_path: Path) -> None:
    disk = FakeDisk()
    store = open_store(tmp_path, disk)
    store.map("jobs")["a"] = 1
    disk.fail("write_at")
    with pytest.raises(LogFailed):
        store.close()
    assert reopened(tmp_path) == {"a": 1}


def test_a_failure_of_one_business_leaves_the_others_alone(tmp_path: Path) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk) as store:
        jobs, runs = store.map("jobs"), store.map("runs")
        disk.fail("datasync")
        with pytest.raises(CommitUnknown):
            jobs["a"] = 1
        runs["a"] = 1
        with pytest.raises(LogFailed):
            jobs["a"] = 1
        assert runs["a"] == 1


def test_a_disk_that_fails_while_opening_is_a_named_error(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.map("jobs")["a"] = 1
    disk = FakeDisk()
    with open_store(tmp_path, disk) as store:
        for call in CALLS:
            disk.fail(call)
            with pytest.raises(ConfigError, match="cannot be opened"):
                store.map("jobs")
        assert store.map("jobs")["a"] == 1


def test_a_future_of_the_group_carries_the_error(tmp_path: Path) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        disk.refuse.add("datasync")
        future: Future[int] = jobs.submit("a", 1)
        assert isinstance(future.exception(timeout=60), CommitUnknown)
        disk.refuse.clear()


def test_a_bug_that_stops_the_writer_is_named_to_all_that_write_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        monkeypatch.setattr(Appender, "append", lambda *given, **named: 1 // 0)
        with pytest.raises(CommitUnknown, match="division"):
            jobs["b"] = 2
        monkeypatch.undo()
        for _ in range(2):
            with pytest.raises(LogFailed, match=r"division.*reopen") as failed:
                jobs["c"] = 3
            assert isinstance(failed.value.__cause__, ZeroDivisionError)
        assert dict(jobs) == {"a": 1}
    assert reopened(tmp_path) == {"a": 1}


def test_a_snapshot_that_could_not_be_written_leaves_no_file_in_its_own_way(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "log")
    writer.group(3)
    writer.close()
    segment = writer.sealed[0]
    disk = FakeDisk()
    for call in CALLS:
        disk.fail(call)
        with pytest.raises(OSError, match="Input/output error"):
            checkpoint(disk, SYSTEM, segment.path.parent, [segment], entry_decoder())
        assert [path.name for path in segment.path.parent.iterdir()] == [segment.path.name]
    assert checkpoint(disk, SYSTEM, segment.path.parent, [segment], entry_decoder())
