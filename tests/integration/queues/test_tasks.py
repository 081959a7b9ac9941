"""Queues of a cluster for tasks: the methods of `kvwal.aio.open`, and takes that are cancelled."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

import kvwal
from kvwal.errors import CommitUnknown, StoreClosed, TransactionClosed
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running
from tests.support.queue.blocks import rolled_back_here
from tests.support.queue.faces import content

pytestmark = [needs_hazelcast, pytest.mark.long]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("tasks") / "root") as made:
        yield made


def run(node: Node, test: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with kvwal.aio.connect(node.address, cluster=CLUSTER) as store:
            await test(store)

    asyncio.run(main())


def test_puts_takes_and_figures(node: Node) -> None:
    async def test(store: Any) -> None:
        q = store.queue("plain")
        assert q.name == "plain/queue"
        assert await q.put("b") > 0
        await q.put_many(["c", "d"], ttl=3600)
        await q.put("a", priority=-1)
        assert [await q.peek(), await q.count(), await q.in_flight()] == ["a", 4, 0]
        assert await content(q) == ["a", "b", "c", "d"]
        [first, *_] = [item async for item in q.items()]
        assert await q.take() == "a"
        assert [entry.deleted for entry in await q.history(first.priority, first.position)] == [True, False]
        assert await q.take_many(9) == ["b", "c", "d"]
        assert await q.take_many(9, timeout=0.05) == []
        with pytest.raises(queue.Empty):
            await q.take(0)
        await q.put_many(["x", "y", "z"])
        assert await q.move("other", 1) == 1
        assert await q.purge() == 2
        assert await content(store.business("plain").queue("other")) == ["x"]
        assert await store.business("plain").queues() == ["other"]
        assert await store.business("none").queues() == []

    run(node, test)


def test_a_block_is_whole(node: Node) -> None:
    async def test(store: Any) -> None:
        business = store.business("whole")
        await business.queue("todo").put_many(range(5))
        async with business.transaction() as t:
            items = await t.queue("todo").take_many(3)
            t.queue("done").put_many(items)
            t.map("state")["last"] = items[-1]
            t.map()["own"] = 1
            assert [await t.map("state").get("last"), await t.map("state").get("none")] == [2, None]
        assert t.timestamp > 0
        assert await content(business.queue("done")) == [0, 1, 2]
        assert await business.map().get("own") == 1
        async with rolled_back_here(business.queue("todo").transaction()) as block:
            assert await block.take() == 3
            block.put("never")
        with pytest.raises(TransactionClosed):
            block.put("late")
        assert await content(business.queue("todo")) == [3, 4]
        async with business.transaction() as t:
            assert await t.map("state").get("last") == 2
        state = business.map("state")
        assert [await state.get("last"), await state.get("own"), await state.count()] == [2, None, 1]

    run(node, test)


def test_a_cancelled_take_has_taken_nothing(node: Node) -> None:
    async def test(store: Any) -> None:
        q = store.queue("cancelled")
        await q.put_many(["a", "b", "c"])
        for _ in range(10):
            taking = asyncio.create_task(q.take_many(2))
            await asyncio.sleep(0)
            while not taking.done() and not await q.in_flight():
                pass
            taking.cancel()
            taken = (await asyncio.gather(taking, return_exceptions=True))[0]
            if not isinstance(taken, asyncio.CancelledError):
                assert taken == ["a", "b"]
                await q.purge()
                await q.put_many(["a", "b", "c"])
            assert await content(q) == ["a", "b", "c"]
        async with q.transaction() as t:
            taking = asyncio.create_task(t.take())
            while not await q.in_flight():
                pass
            taking.cancel()
            taken = (await asyncio.gather(taking, return_exceptions=True))[0]
            assert isinstance(taken, asyncio.CancelledError) or taken == "a"
            kept = [] if isinstance(taken, asyncio.CancelledError) else ["a"]
            assert await content(q) == ["a", "b", "c"][len(kept) :]
        assert await content(q) == ["a", "b", "c"][len(kept) :]

    run(node, test)


def test_a_task_waits_for_items(node: Node) -> None:
    async def test(store: Any) -> None:
        q, got = store.queue("waits"), []

        async def consume() -> None:
            async for item in q:
                got.append(item)
                if len(got) == 3:
                    return

        consuming = asyncio.create_task(consume())
        for number in range(3):
            await q.put(number)
        await consuming
        assert got == [0, 1, 2]
        waiting = asyncio.create_task(q.take())
        await q.count()
        await store.close()
        with pytest.raises((StoreClosed, CommitUnknown)):  # its first request may have been under way
            await waiting
        with pytest.raises(StoreClosed):
            await q.take()

    run(node, test)
