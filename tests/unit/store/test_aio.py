"""The asynchronous face has the promises of the synchronous one, and a cancelled write is there whole, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.aio import Map, Store
from kvwal.config import Settings
from kvwal.errors import CodecError, ConfigError, StoreClosed, StoreLocked, TooLarge
from tests.support.disk.faults import FakeClock, FakeDisk, open_aio, open_store

TASKS = 16


def run(root: Path, test: Callable[[Store, Map], Coroutine[Any, Any, None]], **given: Any) -> None:
    """Run a test on an open store and its map `jobs`."""

    async def main() -> None:
        async with kvwal.aio.open(root, archive=None, **({"flush": "os"} | given)) as store:
            await test(store, store.map("jobs"))

    asyncio.run(main())


async def everything(jobs: Map) -> dict[Any, Any]:
    return {key: value async for key, value in jobs.scan()}


def test_what_is_put_is_there_and_after_a_reopen_too(tmp_path: Path) -> None:
    async def test(store: Store, jobs: Map) -> None:
        first = await jobs.put("a", {"x": [1]})
        second = await jobs.put_many({"b": 1, "c": 2})
        assert first < second
        assert await jobs.get("a") == {"x": [1]}
        assert await jobs.get("no") is None
        assert await jobs.get("no", 1) == 1
        assert await jobs.contains("a")
        assert await jobs.count() == 3
        entry = await jobs.entry("b")
        assert entry is not None
        assert entry.timestamp == second
        assert [key async for key, _ in jobs.scan("b")] == ["b"]
        assert await jobs.delete("c") > second
        assert await jobs.pop("b") == 1
        assert await jobs.pop("b", 7) == 7
        with pytest.raises(KeyError):
            await jobs.pop("b")
        assert [e.deleted for e in await jobs.history("b")] == [True, False]
        assert dict(await jobs.at(second)) == {"a": {"x": [1]}, "b": 1, "c": 2}

    run(tmp_path, test)
    with kvwal.open(tmp_path, archive=None) as store:
        assert store.map("jobs") == {"a": {"x": [1]}}


def test_a_transaction_is_whole_or_nothing(tmp_path: Path) -> None:
    async def fails(jobs: Map) -> None:
        async with jobs.transaction() as t:
            t["a"] = 2
            raise ZeroDivisionError

    async def test(store: Store, jobs: Map) -> None:
        await jobs.put("gone", 1)
        async with jobs.transaction() as t:
            t["a"] = 1
            t["a"] = 2
            t.put("b", 1, ttl=60)
            del t["gone"]
            assert await everything(jobs) == {"gone": 1}
        assert await everything(jobs) == {"a": 2, "b": 1}
        assert {e.timestamp for key in ("a", "b") for e in await jobs.history(key)} == {t.timestamp}
        with pytest.raises(ZeroDivisionError):
            await fails(jobs)
        assert await everything(jobs) == {"a": 2, "b": 1}

    run(tmp_path, test)


def test_conditions_are_decided_in_the_order_of_the_log(tmp_path: Path) -> None:
    async def test(store: Store, jobs: Map) -> None:
        won = await asyncio.gather(*(jobs.put_if_absent("a", name) for name in range(TASKS)))
        assert won == [True] + [False] * (TASKS - 1)
        assert await jobs.get("a") == 0

        async def add() -> None:
            for _ in range(5):
                while not await jobs.replace("a", seen := await jobs.get("a"), seen + 1):
                    pass

        await asyncio.gather(*(add() for _ in range(TASKS)))
        assert await jobs.get("a") == 5 * TASKS
        removed = await asyncio.gather(*(jobs.remove("a", 5 * TASKS) for _ in range(TASKS)))
        assert removed.count(True) == 1

    run(tmp_path, test)


def test_many_tasks_at_once_and_none_is_lost(tmp_path: Path) -> None:
    async def test(store: Store, jobs: Map) -> None:
        stamps = await asyncio.gather(*(jobs.put(number, b"x" * 100) for number in range(2000)))
        assert len(set(stamps)) == 2000
        assert await jobs.count() == 2000

    run(tmp_path, test, flush="sync", settings=Settings(ring_slots=2, ring_bytes=1000))
    with kvwal.open(tmp_path, archive=None) as store:
        assert len(store.map("jobs")) == 2000


def test_sync_is_a_datasync_before_each_answer(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FakeDisk()
        async with open_aio(tmp_path, disk) as store:
            jobs = store.map("jobs")
            changes: list[Callable[[], Awaitable[Any]]] = [
                lambda: jobs.put("a", 1), lambda: jobs.put_if_absent("b", 1), lambda: jobs.delete("a"), lambda: jobs.pop("b"),
            ]  # fmt: skip
            await jobs.count()
            disk.log.clear()
            for number, change in enumerate(changes, 1):
                await change()
                assert disk.log == ["write_at", "datasync"] * number

    asyncio.run(main())


def test_a_call_can_force_it(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FakeDisk()
        async with open_aio(tmp_path, disk, flush="os") as store:
            jobs = store.map("jobs")
            await jobs.count()
            disk.log.clear()
            await jobs.put("a", 1)
            await jobs.put("b", 1, sync=True)
            await jobs.put_many({"c": 1})
            await jobs.put_many({"d": 1}, sync=True)
            await jobs.delete("d", sync=True)
            assert disk.log == [
                "write_at",
                "write_at",
                "datasync",
                *["write_at"] * 2,
                "datasync",
                "write_at",
                "datasync",
            ]

    asyncio.run(main())


def test_expiry(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with open_aio(tmp_path, clock=clock) as store:
            jobs = store.map("jobs")
            await jobs.put("a", 1, ttl=5)
            assert not await jobs.put_if_absent("a", 2)
            clock.ms += 5000
            assert not await jobs.contains("a")
            assert await jobs.put_if_absent("a", 2, ttl=5)

    asyncio.run(main())


@pytest.mark.parametrize("rounds", range(0, 12, 2))
def test_a_cancelled_write_is_there_whole_or_not_at_all(tmp_path: Path, rounds: int) -> None:
    """Cancelled after so many rounds of the loop: before it is taken, while it is written, or after it."""

    async def test(store: Store, jobs: Map) -> None:
        await jobs.put("before", 1)
        task = asyncio.ensure_future(together(jobs))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await jobs.put("after", 1)

    async def together(jobs: Map) -> None:
        await jobs.put_many({"a": 1, "b": 1})

    run(tmp_path, test, flush="sync")
    with kvwal.open(tmp_path, archive=None) as store:
        assert dict(store.map("jobs")) in ({"before": 1, "after": 1}, {"before": 1, "after": 1, "a": 1, "b": 1})


def test_a_cancelled_wait_for_room_writes_nothing_and_blocks_no_other_writer(tmp_path: Path) -> None:
    async def test(store: Store, jobs: Map) -> None:
        await jobs.count()
        tasks = [asyncio.ensure_future(one(jobs, number)) for number in range(100)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(answer, int) for answer in answers[1::2])
        there = set(await everything(jobs))
        assert there >= set(range(1, 100, 2))

    async def one(jobs: Map, number: int) -> int:
        return await jobs.put(number, b"x" * 500)

    run(tmp_path, test, settings=Settings(ring_slots=1, ring_bytes=1000))


def test_bad_input_is_refused_where_it_is_given(tmp_path: Path) -> None:
    async def test(store: Store, jobs: Map) -> None:
        refused: list[tuple[type[Exception], Callable[[], Awaitable[Any]]]] = [
            (CodecError, lambda: jobs.put(frozenset("a"), 1)),
            (CodecError, lambda: jobs.put("a", {1: 2})),
            (CodecError, lambda: jobs.put("a", 1, ttl=-1)),
            (TooLarge, lambda: jobs.put("a" * (5 << 20), 1)),
            (TooLarge, lambda: jobs.put_many({1: b"x", "x" * (5 << 20): 2})),
            (ConfigError, lambda: store.map("../x").count()),
            (ConfigError, store.archive),
        ]
        for error, call in refused:
            with pytest.raises(error):
                await call()
        assert await jobs.count() == 0

    run(tmp_path, test)


def test_a_store_that_is_not_open_or_closed_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        store = kvwal.aio.open(tmp_path, archive=None)
        with pytest.raises(StoreClosed, match="async with"):
            await store.map("jobs").put("a", 1)
        async with store:
            jobs = store.map("jobs")
            await jobs.put("a", 1)
        for call in (lambda: jobs.put("a", 2), lambda: store.map("new").count(), store.checkpoint):
            with pytest.raises(StoreClosed, match="Open it again"):
                await call()
        assert await jobs.get("a") == 1
        await store.close()

    asyncio.run(main())


def test_writes_under_way_end_before_a_close(tmp_path: Path) -> None:
    async def main() -> None:
        async with kvwal.aio.open(tmp_path, archive=None) as store:
            jobs = store.map("jobs")
            await jobs.count()
            waiting = [asyncio.ensure_future(jobs.put(number, 1)) for number in range(100)]
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(answer, int | StoreClosed) for answer in answers)
        acknowledged = [number for number, answer in enumerate(answers) if isinstance(answer, int)]
        with open_store(tmp_path) as again:
            assert list(again.map("jobs")) == acknowledged

    asyncio.run(main())


def test_both_faces_hold_the_same_lock(tmp_path: Path) -> None:
    async def test(store: Store, jobs: Map) -> None:
        await jobs.put("a", 1)
        with open_store(tmp_path) as other, pytest.raises(StoreLocked):
            other.map("jobs")

    run(tmp_path, test)


def test_two_businesses_commit_side_by_side(tmp_path: Path) -> None:
    async def test(store: Store, jobs: Map) -> None:
        runs = store.map("runs", flush="os")
        await asyncio.gather(*(target.put(number, number) for number in range(50) for target in (jobs, runs)))
        assert await jobs.count() == await runs.count() == 50
        assert store.stats()["businesses"].keys() == {"jobs", "runs"}
        await store.checkpoint()
        assert [b["snapshot_sequence"] for b in store.stats()["businesses"].values()] == [50, 50]

    run(tmp_path, test, flush="sync")
