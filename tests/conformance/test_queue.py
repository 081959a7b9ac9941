"""The asynchronous queue, and that of a cluster, answer as the synchronous one does."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import CodecError, ConfigError, InvalidName, StoreClosed, TooLarge, TransactionClosed
from kvwal.structures.queue.options import QueueOptions
from tests.support.cluster.nodes import CLUSTER, Cluster, needs_hazelcast
from tests.support.disk.faults import FakeClock, open_aio, open_store
from tests.support.queue.blocks import rolled_back_here
from tests.support.queue.faces import OnThreads, content, emptied, is_of_cluster, putters, waits

Run = Callable[..., None]


@pytest.fixture(params=["synchronous", "asynchronous", pytest.param("cluster", marks=needs_hazelcast)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a test on the business `work` of a store that is opened for it, and on the store, if the test wants it."""
    three: Cluster | None = request.getfixturevalue("three") if request.param == "cluster" else None

    @asynccontextmanager
    async def opened(**given: Any) -> Any:
        if three is not None:
            if given:
                pytest.skip("the members of a cluster have clocks of their own")
            addresses = [node.address for node in three.nodes]
            with await asyncio.to_thread(kvwal.connect, addresses, cluster=CLUSTER) as made:
                await asyncio.to_thread(emptied, made.business("work"))
                yield OnThreads(made)
        elif request.param == "asynchronous":
            async with open_aio(tmp_path, flush="os", **given) as store:
                yield store
        else:
            with await asyncio.to_thread(open_store, tmp_path, flush="os", **given) as made:
                yield OnThreads(made)

    def run_test(test: Callable[..., Coroutine[Any, Any, None]], **given: Any) -> None:
        async def main() -> None:
            async with opened(**given) as store:
                await test(store.business("work"), store)

        asyncio.run(main())

    return run_test


def test_items_come_in_the_order_of_their_puts_and_priorities(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        q = business.queue()
        assert q.name == "work/queue"
        first = await q.put("b")
        assert await q.put_many(["c", {"d": [1]}], priority=0) > first
        await q.put("last", priority=15)
        await q.put("a", priority=-16)
        assert await q.put_many([]) == 0
        assert await q.count() == 5
        assert await q.peek() == "a"
        items = [item async for item in q.items()]
        assert [(item.priority, item.value) for item in items] == [
            (-16, "a"), (0, "b"), (0, "c"), (0, {"d": [1]}), (15, "last"),
        ]  # fmt: skip
        assert items[1].timestamp == (items[1].position if is_of_cluster(q) else first)
        assert await content(q) == ["a", "b", "c", {"d": [1]}, "last"]
        assert await q.take() == "a"
        assert await q.take_many(2) == ["b", "c"]
        assert await q.take_many(9) == [{"d": [1]}, "last"]
        assert (await q.take_many(9), await q.count()) == ([], 0)

    run(test)


def test_an_empty_queue_says_so(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        q = business.queue("todo")
        for ask in (lambda: q.take(0), lambda: q.take(timeout=0.001), q.peek):
            with pytest.raises(queue.Empty, match="work/queue/todo: there is no item to take"):
                await ask()
        assert await q.take_many(3, timeout=0.001) == []
        with pytest.raises(queue.Empty):
            async with q.transaction() as t:
                await t.take(timeout=0)

    run(test)


def test_purge_and_move(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        todo, done = business.queue("todo"), business.queue("done")
        await todo.put_many(range(5))
        await todo.put("urgent", priority=-1, ttl=3600)
        await done.put("old")
        assert await todo.move("done", 3) == 3
        assert await content(done) == ["urgent", "old", 0, 1]
        [expires] = [item.expires async for item in done.items() if item.value == "urgent"]
        assert expires > 0
        assert await todo.move("todo", 1) == 1
        assert await content(todo) == [3, 4, 2]
        assert await todo.move("done", 100_000) == 3
        assert await todo.move("done", 1) == 0
        assert (await done.purge(), await done.purge()) == (7, 0)
        assert (await todo.count(), await done.in_flight()) == (0, 0)

    run(test)


def test_what_has_expired_is_not_taken(run: Run) -> None:
    clock = FakeClock()

    async def test(business: Any, store: Any) -> None:
        q = business.queue()
        await q.put("short", ttl=1)
        await q.put("long", ttl=100)
        clock.ms += 2_000
        assert await content(q) == ["long"]
        assert await q.take_many(5) == ["long"]
        with pytest.raises(CodecError, match="ttl"):
            await q.put("x", ttl=-1)

    run(test, clock=clock)


def test_a_block_of_several_structures_is_whole(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        a, b, state = business.queue("a"), business.queue("b"), business.map("state")
        await a.put_many(range(5))
        async with business.transaction() as t:
            assert t.timestamp == 0
            taken = await t.queue("a").take_many(3)
            t.queue("b").put_many(taken, priority=1)
            t.queue("b").put("first")
            t.map("state")["last"] = taken[-1]
            t.map()["own"] = 1
            assert await t.map("state").get("last") == 2
            assert await t.queue("a").take_many(9) == [3, 4]
            assert (await content(b), await state.get("last"), await a.in_flight()) == ([], None, 5)
        assert t.timestamp > 0
        assert (await content(a), await content(b)) == ([], ["first", 0, 1, 2])
        assert [await business.map(name).get(key) for name, key in (("state", "last"), ("", "own"))] == [2, 1]
        assert is_of_cluster(b) or [item.timestamp async for item in b.items()] == [t.timestamp] * 4

    run(test)


def test_a_block_that_raises_leaves_the_items_at_the_head(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        q = business.queue()
        await q.put_many(["a", "b", "c"])
        async with rolled_back_here(q.transaction()) as t:
            assert [await t.take(), await t.take()] == ["a", "b"]
            t.put("d")
            await q.put("e")
            assert await q.take() == "c"
            assert (await content(q), await q.in_flight()) == (["e"], 2)
        assert t.timestamp == 0
        assert (await content(q), await q.in_flight()) == (["a", "b", "e"], 0)
        async with q.transaction() as t:
            assert await t.take() == "a"
            t.put("a", priority=1)
        assert await content(q) == ["b", "e", "a"]

    run(test)


def test_a_taker_waits_for_a_put_for_a_commit_and_for_what_comes_back(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        q = business.queue()

        async def put() -> None:
            await q.put("put")

        async def commit() -> None:
            async with q.transaction() as t:
                t.put("committed")

        async def undo() -> None:
            await q.put("back")
            async with rolled_back_here(q.transaction()) as t:
                await t.take()
                nonlocal taker
                taker = asyncio.create_task(q.take(timeout=600))
                await waits(q, 1)

        for give, item in ((put, "put"), (commit, "committed")):
            taker = asyncio.create_task(q.take())
            await waits(q, 1)
            await give()
            assert await taker == item
        await undo()
        assert await taker == "back"

    run(test)


def test_each_waiting_taker_gets_one_item(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        q = business.queue()
        takers = [asyncio.create_task(take()) for take in (q.take, lambda: q.take_many(1, None), lambda: of_block(q))]
        await waits(q, 3)
        await q.put_many(["a", "b", "c", "d"])
        got = [item for taken in await asyncio.gather(*takers) for item in taken]
        assert sorted(got) == ["a", "b", "c"]
        assert await content(q) == ["d"]

    async def of_block(q: Any) -> Any:
        async with q.transaction() as t:
            return await t.take()

    run(test)


def test_the_end_of_the_store_ends_every_wait(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        q = business.queue("todo")

        async def of_block() -> None:
            async with q.transaction() as t:
                await t.take()

        takers = [asyncio.create_task(take()) for take in (q.take, lambda: q.take_many(2, None), of_block)]
        await waits(q, 3)
        await store.close()
        ended = await asyncio.gather(*takers, return_exceptions=True)
        assert [type(error) for error in ended] == [StoreClosed] * 3
        for call in (q.take, lambda: q.take(0), lambda: q.put(1), lambda: q.move("done", 1)):
            with pytest.raises(StoreClosed):
                await call()

    run(test)


def test_bad_arguments_are_refused_and_nothing_is_done(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        q = business.queue()
        await q.put("item")
        refused: list[Callable[[], Awaitable[Any]]] = [
            lambda: q.put("x", priority=16), lambda: q.put("x", priority=True), lambda: q.take(timeout=-1),
            lambda: q.take(timeout="1"), lambda: q.take_many(0), lambda: q.take_many(1.5), lambda: q.move("other", 0),
            lambda: q.move("../other", 1), lambda: q.at(1767225600),
        ]  # fmt: skip
        for call in refused:
            with pytest.raises(ConfigError):
                await call()
        for make in (lambda: business.queue("../other"), lambda: business.map("_other")):
            with pytest.raises(InvalidName):
                make()
        with pytest.raises(CodecError):
            await q.put_many(["x", object()])
        assert (await content(q), await q.in_flight()) == (["item"], 0)

    run(test)


def test_a_transaction_is_over_after_its_block(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        q = business.queue()
        once = q.transaction()
        with pytest.raises(TransactionClosed):
            once.put("early")
        async with once as t:
            t.put("x")
        with pytest.raises(TransactionClosed):
            t.put("y")
        for take in (t.take, lambda: t.take_many(1)):
            with pytest.raises(TransactionClosed):
                await take()
        with pytest.raises(TransactionClosed):
            async with t:
                pass
        assert await content(q) == ["x"]

    run(test)


def test_a_transaction_that_is_too_large_leaves_everything(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        q = business.queue()
        await q.put("x")

        async def too_large() -> None:
            async with business.transaction() as t:
                await t.queue().take()
                t.queue().put("y")
                t.map()["y" * 6_000_000] = "y"

        with pytest.raises(TooLarge):
            await too_large()
        assert (await content(q), await q.in_flight()) == (["x"], 0)

    run(test)


def test_options_capacity_and_a_put_that_waits_for_room(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        q = business.queue()
        assert await q.set_options(capacity=2, ttl=3600) == QueueOptions(capacity=2, ttl=3600)
        await q.set_options(ttl=None)
        assert await q.options() == QueueOptions(capacity=2)
        await q.put_many(["a", "b"])
        for timeout in (0, 0.001):
            with pytest.raises(queue.Full, match="work/queue is full"):
                await q.put("c", timeout=timeout)
        with pytest.raises(TooLarge):
            await q.put_many(["c", "d", "e"])
        putter = asyncio.create_task(q.put_many(["c", "d"], timeout=600))
        await putters(q, 1)
        async with q.transaction() as t:
            assert await t.take_many(2) == ["a", "b"]
        assert await putter > 0
        assert await content(q) == ["c", "d"]

        async def block() -> None:
            async with q.transaction() as t:
                t.put_many([await t.take(), "e"])

        with pytest.raises(queue.Full):
            await block()
        assert (await content(q), await q.in_flight()) == (["c", "d"], 0)
        waiting = asyncio.create_task(q.put("e"))
        await putters(q, 1)
        await store.close()
        with pytest.raises(StoreClosed):
            await waiting

    run(test)


def test_deliveries_delays_and_dead_letters(run: Run) -> None:
    clock = FakeClock()

    async def test(business: Any, store: Any) -> None:
        q, dead = business.queue(), business.queue("dead")
        await q.set_options(redelivery_delay=10, max_deliveries=2, dead_letters="dead")
        await q.put_many(["a", "b"])
        await q.put("c", delay=5)
        async with rolled_back_here(q.transaction()) as t:
            assert await t.take_many(9) == ["a", "b"]
        assert (await q.count(), await q.delayed(), await q.in_flight()) == (0, 3, 0)
        clock.ms += 5_000
        assert await q.take(timeout=0) == "c"
        clock.ms += 5_000
        assert [(item.value, item.deliveries) async for item in q.items()] == [("a", 1), ("b", 1)]
        async with rolled_back_here(q.transaction()) as t:
            assert await t.take() == "a"
            t.put("never")
        assert (await content(q), await content(dead), await q.delayed()) == (["b"], ["a"], 0)
        async with q.transaction() as t:
            assert await t.take() == "b"
            t.put("d", delay=1)
        assert (await q.count(), await q.purge(), await q.delayed()) == (0, 1, 0)

    run(test, clock=clock)


def test_the_past_of_a_queue_and_of_an_item(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        q, named = business.queue(), business.map("state")
        await q.put_many(["a", "b"])
        await q.put("first", priority=-1, ttl=3600)
        [first, item, _] = [item async for item in q.items()]
        before = await named.put("key", 1)
        assert await q.take_many(2) == ["first", "a"]
        async with q.transaction() as t:
            assert await t.take() == "b"
            in_flight = await named.put("key", 2)
            assert [found.value for found in await q.at(in_flight)] == ["b"]
        then = await q.at(before)
        assert [found.value for found in then] == ["first", "a", "b"]
        assert [found[:2] for found in then[:2]] == [first[:2], item[:2]]
        assert [found.expires > 0 for found in then] == [True, False, False]
        assert then[1].timestamp == then[2].timestamp == item.timestamp or is_of_cluster(q)
        assert await q.at(await named.put("key", 3)) == []
        assert [entry.deleted for entry in await q.history(item.priority, item.position)] == [True, False]
        assert [(await named.at(moment))["key"] for moment in (before, in_flight)] == [1, 2]
        assert [entry.deleted for entry in (await named.history("key"))[:3]] == [False] * 3

    run(test)
