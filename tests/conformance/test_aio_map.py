"""The asynchronous map answers as the synchronous one does, embedded and of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from kvwal.aio import Map
from kvwal.errors import CodecError, ConfigError, StoreClosed, TooLarge, TransactionClosed, WrongLoop

TASKS = 16
_NUMBERS = count(1)

Opening = Callable[[], Any]


def run(opening: Opening, test: Callable[[Map], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with opening() as store:
            await test(store.map(f"aio-{next(_NUMBERS)}"))

    asyncio.run(main())


async def everything(jobs: Map, prefix: str | None = None) -> list[tuple[Any, Any]]:
    return [item async for item in jobs.scan(prefix)]


def test_what_is_put_is_there(opening: Opening) -> None:
    async def test(jobs: Map) -> None:
        first = await jobs.put("a", {"x": [1]})
        second = await jobs.put("b", None, ttl=1000)
        assert await jobs.get("a") == {"x": [1]}
        assert await jobs.get("b", 5) is None
        assert await jobs.get("c", 5) == 5
        assert await jobs.contains("b")
        assert not await jobs.contains("c")
        assert await jobs.count() == 2
        entry = await jobs.entry("b")
        assert entry is not None
        assert entry.value_class == "none"
        assert await everything(jobs) == [("a", {"x": [1]}), ("b", None)]
        assert await everything(jobs, "b") == [("b", None)]
        assert await jobs.put("a", {"x": [1]}) > first  # of one key they increase: two keys may have two clocks
        assert await jobs.delete("b") > second
        assert await jobs.pop("a") == {"x": [1]}
        assert await jobs.pop("a", None) is None
        with pytest.raises(KeyError):
            await jobs.pop("a")
        assert await jobs.count() == 0

    run(opening, test)


def test_exactly_one_condition_wins(opening: Opening) -> None:
    async def test(jobs: Map) -> None:
        won = await asyncio.gather(*(jobs.put_if_absent("a", name) for name in range(TASKS)))
        assert won.count(True) == 1
        assert await jobs.get("a") == won.index(True)
        assert not await jobs.replace("a", "no", 1)
        assert await jobs.replace("a", won.index(True), {"b": 1.0, "a": 2})
        removed = await asyncio.gather(*(jobs.remove("a", {"a": 2, "b": 1.0}) for _ in range(TASKS)))
        assert removed.count(True) == 1

    run(opening, test)


def test_several_keys_are_changed_as_one(opening: Opening) -> None:
    async def test(jobs: Map) -> None:
        await jobs.put_many({"a": 1, "b": 2})
        async with jobs.transaction() as t:
            t["c"] = 3
            del t["a"]
            assert [await t.get(key, "absent") for key in "abcd"] == ["absent", 2, 3, "absent"]
        assert await everything(jobs) == [("b", 2), ("c", 3)]
        with pytest.raises(TransactionClosed):
            async with t:
                t["a"] = 1
        with pytest.raises(TransactionClosed):
            t["a"] = 1
        once = jobs.transaction()
        async with once:
            with pytest.raises(TransactionClosed):
                await once.__aenter__()
        with pytest.raises(TransactionClosed):
            await once.__aenter__()
        assert await everything(jobs) == [("b", 2), ("c", 3)]
        await asyncio.gather(*(jobs.put_many({number: number, -number - 1: number}) for number in range(TASKS)))
        assert await jobs.count() == 2 + 2 * TASKS

    run(opening, test)


def test_more_tasks_than_may_wait_all_write(opening: Opening) -> None:
    async def test(jobs: Map) -> None:
        await asyncio.gather(*(jobs.put(number, number) for number in range(3000)))
        assert await jobs.count() == 3000

    run(opening, test)


def test_what_is_refused_changes_nothing(opening: Opening) -> None:
    async def test(jobs: Map) -> None:
        with pytest.raises(CodecError):
            await jobs.put("a", object())
        with pytest.raises(CodecError):
            await jobs.delete(frozenset("a"))
        with pytest.raises(ConfigError):
            await jobs.at(1767225600)
        with pytest.raises(TooLarge):
            await jobs.put(bytes(6 << 20), "a")
        assert await jobs.count() == 0

    run(opening, test)


def test_a_key_that_cannot_be_one_is_absent(opening: Opening) -> None:
    async def test(jobs: Map) -> None:
        assert (
            await jobs.get(frozenset("a"))
            is await jobs.entry(frozenset("a"))
            is await jobs.pop(frozenset("a"), None)
            is None
        )
        assert not await jobs.contains(frozenset("a"))
        assert await jobs.history(frozenset("a")) == []
        with pytest.raises(KeyError):
            await jobs.pop(frozenset("a"))

    run(opening, test)


def test_a_map_belongs_to_its_loop_and_its_store(opening: Opening) -> None:
    async def main() -> Map:
        async with opening() as store:
            jobs: Map = store.map(f"aio-{next(_NUMBERS)}")
            await jobs.put("a", 1)
            with pytest.raises(WrongLoop):
                await asyncio.to_thread(asyncio.run, elsewhere(jobs))
        with pytest.raises(StoreClosed):
            await jobs.put("a", 1)
        return jobs

    async def elsewhere(jobs: Map) -> None:
        await jobs.put("a", 2)

    asyncio.run(main())


def test_a_store_that_was_not_entered_is_closed(opening: Opening) -> None:
    async def main() -> None:
        jobs = opening().map("never")
        with pytest.raises(StoreClosed):
            await jobs.put("a", 1)

    asyncio.run(main())


@pytest.mark.parametrize("ttl", [3_600, timedelta(hours=1)], ids=repr)
def test_a_time_to_live_is_seconds_or_a_timedelta(opening: Opening, ttl: float | timedelta) -> None:
    async def test(jobs: Map) -> None:
        await jobs.put("put", 1, ttl)
        await jobs.put_if_absent("put_if_absent", 1, ttl)
        await jobs.put_many({"many": 1, "more": 2}, ttl)
        async with jobs.transaction() as t:
            t.put("transaction", 1, ttl)
        for key in ("put", "put_if_absent", "many", "more", "transaction"):
            entry = (await jobs.history(key))[0]
            assert entry.expires - (entry.timestamp >> 16) == pytest.approx(3_600_000, abs=60_000), key

    run(opening, test)
