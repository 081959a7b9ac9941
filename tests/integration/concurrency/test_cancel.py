"""A task that is cancelled while it waits for a write: the write is there whole or not at all, and nobody else notices.

The disk is held where the test wants the write to be; the noise that an event loop makes of a forgotten exception fails the test.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.aio import Map, Store
from kvwal.errors import StoreLocked
from tests.support.disk.faults import FakeDisk, open_aio, open_store

KEYS = ("a", "b", "c")


def whole(jobs: Map) -> Awaitable[Any]:
    return jobs.put_many(dict.fromkeys(KEYS, 1))


async def block(jobs: Map) -> None:
    async with jobs.transaction() as t:
        for key in KEYS:
            t[key] = 1


async def absent(jobs: Map) -> None:
    assert await jobs.put_if_absent("a", 1)


async def reads_then_writes(jobs: Map) -> None:
    assert await jobs.replace("before", 0, 1)


WRITES: list[Callable[[Map], Awaitable[Any]]] = [whole, block, absent, reads_then_writes]
UNTOUCHED = {"before": 0, "other": 1}
WRITTEN: dict[Any, dict[str, int]] = {
    whole: dict.fromkeys(KEYS, 1), block: dict.fromkeys(KEYS, 1), absent: {"a": 1}, reads_then_writes: {"before": 1},
}  # fmt: skip


def run(root: Path, test: Callable[[Store, Map, FakeDisk], Coroutine[Any, Any, None]], **given: Any) -> dict[Any, Any]:
    """Run a test on an open store whose event loop may not complain; what a reopened store holds."""
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        disk = FakeDisk()
        async with open_aio(root, disk, **given) as store:
            jobs = store.map("jobs")
            await jobs.put("before", 0)
            await test(store, jobs, disk)
            await jobs.put("other", 1)
            stats = store.stats()["businesses"]["jobs"]
            assert (stats["ring_slots"], stats["ring_bytes"]) == (0, 0)
        gc.collect()

    asyncio.run(main())
    gc.collect()
    assert not complaints
    with kvwal.open(root, archive=None) as again:
        return dict(again.map("jobs"))


async def start(work: Awaitable[Any]) -> asyncio.Task[Any]:
    """A task that has come as far as it can without the disk."""

    async def call() -> Any:
        return await work

    task = asyncio.create_task(call())
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def held(disk: FakeDisk, call: str, count: int = 1) -> None:
    await asyncio.to_thread(disk.wait_for, f"held {call}", count)


@pytest.mark.parametrize("write", WRITES)
def test_before_the_writer_took_it_nothing_is_written(tmp_path: Path, write: Callable[[Map], Awaitable[Any]]) -> None:
    """A group is under way, and the write waits behind it."""

    async def test(store: Store, jobs: Map, disk: FakeDisk) -> None:
        disk.hold("datasync")
        first = await start(jobs.put("first", 1))
        await held(disk, "datasync")
        task = await start(write(jobs))
        await cancelled(task)
        disk.go_on()
        assert await first

    assert run(tmp_path, test) == UNTOUCHED | {"first": 1}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("where", ["write_at", "datasync"])
def test_once_the_writer_took_it_all_of_it_is_written(
    tmp_path: Path, write: Callable[[Map], Awaitable[Any]], where: str
) -> None:
    async def test(store: Store, jobs: Map, disk: FakeDisk) -> None:
        disk.hold(where)
        task = await start(write(jobs))
        others = [await start(jobs.put(f"other-{number}", 1)) for number in range(3)]
        await held(disk, where)
        await cancelled(task)
        assert await jobs.get("a") is None
        disk.go_on()
        assert await asyncio.gather(*others)

    expected = UNTOUCHED | WRITTEN[write] | {f"other-{number}": 1 for number in range(3)}
    assert run(tmp_path, test) == expected


@pytest.mark.parametrize("write", WRITES)
def test_a_write_whose_group_failed_and_whose_task_is_gone_is_forgotten_quietly(
    tmp_path: Path, write: Callable[[Map], Awaitable[Any]]
) -> None:
    """`StorageFull` for a future that nobody waits for is no unretrieved exception."""

    async def test(store: Store, jobs: Map, disk: FakeDisk) -> None:
        disk.hold("write_at")
        first = await start(jobs.put("first", 1))
        await held(disk, "write_at")
        task = await start(write(jobs))
        disk.full = True
        await cancelled(task)
        disk.go_on()
        assert await first
        disk.full = False

    assert run(tmp_path, test) == UNTOUCHED | {"first": 1}


def test_while_it_waits_for_room_nothing_is_written(tmp_path: Path) -> None:
    async def test(store: Store, jobs: Map, disk: FakeDisk) -> None:
        disk.hold("datasync")
        tasks = []
        for number in range(20):
            tasks.append(await start(jobs.put(f"{number}", b"x" * 600)))
        await held(disk, "datasync")
        there = store.stats()["businesses"]["jobs"]
        assert there["ring_bytes"] >= 1000
        for task in tasks[10:]:
            await cancelled(task)
        disk.go_on()
        assert all(await asyncio.gather(*tasks[:10]))

    found = run(tmp_path, test, settings=kvwal.Settings(ring_slots=2, ring_bytes=1000))
    assert set(found) == {"before", "other"} | {f"{number}" for number in range(10)}


def test_a_timeout_is_a_cancellation_like_any_other(tmp_path: Path) -> None:
    async def test(store: Store, jobs: Map, disk: FakeDisk) -> None:
        disk.hold("datasync")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(whole(jobs), 0.05)
        disk.go_on()

    found = run(tmp_path, test)
    assert found == UNTOUCHED | dict.fromkeys(KEYS, 1)


def test_a_group_of_tasks_in_which_one_fails_cancels_the_others_writes_whole(tmp_path: Path) -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    async def together(jobs: Map, number: int) -> None:
        await jobs.put_many({f"{number}-{key}": 1 for key in KEYS})

    async def as_a_group(jobs: Map) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(together(jobs, number))
            group.create_task(fails())

    async def test(store: Store, jobs: Map, disk: FakeDisk) -> None:
        with pytest.raises(ExceptionGroup):
            await as_a_group(jobs)

    found = run(tmp_path, test)
    for number in range(50):
        assert len([key for key in found if key.startswith(f"{number}-")]) in (0, len(KEYS))


@pytest.mark.parametrize("order", ["checkpoint", "archive"])
def test_a_checkpoint_or_an_archive_that_is_cancelled_does_not_disturb_a_close(tmp_path: Path, order: str) -> None:
    """The order that it gave waits in the ring when the close comes, and nobody waits for its answer."""

    async def main() -> None:
        disk = FakeDisk()
        async with open_aio(tmp_path / "root", disk, archive=str(tmp_path / "archive")) as store:
            jobs = store.map("jobs")
            await jobs.put("a", 1)
            disk.hold("datasync")
            write = await start(jobs.put("b", 1))
            await held(disk, "datasync")
            closing = await start(store.close())
            task = await start(getattr(store, order)())
            late = await start(store._engine_now().businesses["jobs"].log.rotate())
            task.cancel()
            await cancelled(late)
            disk.go_on()
            assert await write
            await closing
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    with kvwal.open(tmp_path / "root", archive=None) as again:
        assert dict(again.map("jobs")) == {"a": 1, "b": 1}


def test_a_close_that_is_cancelled_goes_on_and_keeps_the_lock_until_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FakeDisk()
        store = open_aio(tmp_path, disk)
        async with store:
            jobs = store.map("jobs")
            await jobs.put("a", 1)
            disk.hold("datasync")
            write = await start(jobs.put("b", 1))
            await held(disk, "datasync")
            await cancelled(await start(store.close()))
            with open_store(tmp_path) as other, pytest.raises(StoreLocked):
                await asyncio.to_thread(other.map, "jobs")
            disk.go_on()
            await store.close()
            assert await write
            with open_store(tmp_path) as other:
                assert dict(await asyncio.to_thread(other.map, "jobs")) == {"a": 1, "b": 1}

    asyncio.run(main())


def test_a_task_that_is_cancelled_while_it_opens_a_log_lets_go_of_it_when_nothing_works_on_it_any_more(
    tmp_path: Path,
) -> None:
    """The thread that recovers goes on after the cancellation: the lock must not be free while it writes."""
    root = tmp_path / "crashed"
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.map("jobs")["a"] = 1
        shutil.copytree(tmp_path / "root", root)

    async def main() -> None:
        disk = FakeDisk()
        async with open_aio(root, disk) as store:
            disk.hold("datasync")
            opening = await start(store.map("jobs").count())
            await held(disk, "datasync")
            opening.cancel()
            await asyncio.sleep(0)
            with open_store(root) as other, pytest.raises(StoreLocked):
                await asyncio.to_thread(other.map, "jobs")
            disk.go_on()
            with pytest.raises(asyncio.CancelledError):
                await opening
            assert await store.map("jobs").get("a") == 1

    asyncio.run(main())
