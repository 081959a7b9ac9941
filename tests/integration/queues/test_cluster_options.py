"""Options and deliveries of queues of a cluster, by real members: they hold for all clients, and outlive members."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import kvwal
from kvwal.client.queues.blocks import QueueBlock, Renewals
from kvwal.errors import CommitUnknown, ConfigError, TooLarge
from kvwal.structures.queue.options import QueueOptions
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, key_owned_by, needs_hazelcast
from tests.support.polling import until
from tests.support.queue.blocks import rolled_back, rolled_back_here
from tests.support.queue.faces import content

pytestmark = [needs_hazelcast, pytest.mark.long]
NAMES = [f"options-{number}" for number in range(100)]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("options"), 3) as made:
        yield made


@pytest.fixture
def store(three: Cluster) -> Iterator[Any]:
    with kvwal.connect([node.address for node in three.nodes], cluster=CLUSTER, timeout=60) as made:
        yield made


def counts(q: Any) -> list[tuple[Any, int]]:
    return [(item.value, item.deliveries) for item in q.items()]


def test_deliveries_delays_and_dead_letters(store: Any) -> None:
    business = store.business("work")
    q, dead = business.queue("todo"), business.queue("dead")
    q.set_options(redelivery_delay=0.5, max_deliveries=2, dead_letters="dead")
    q.put_many(["a", "b"])
    with rolled_back(q.transaction()) as t:
        assert t.take_many(2) == ["a", "b"]
    assert (len(q), q.delayed, q.in_flight) == (0, 2, 0)
    with pytest.raises(queue.Empty):
        q.take(timeout=0)
    with rolled_back(q.transaction()) as t:
        assert t.take() == "a"  # it waits until it is due
    assert (list(dead.browse()), counts(q)) == (["a"], [("b", 1)])
    with suppress(queue.Empty), q.transaction() as t:  # no fault of the item
        assert t.take() == "b"
        raise queue.Empty
    assert counts(q) == [("b", 1)]
    with business.transaction() as t:
        t.queue("todo").put("later", delay=3600)
        t.queue("todo").put_many(t.queue("dead").take_many(5))
    assert (list(q.browse()), q.delayed) == (["b", "a"], 1)
    assert (q.purge(), q.delayed, len(q)) == (3, 0, 0)
    with pytest.raises(ConfigError, match="needs dead_letters, too; no option was changed"):
        q.set_options(max_deliveries=3, dead_letters=None)
    q.set_options(max_deliveries=None, dead_letters=None, redelivery_delay=None)
    assert q.options() == QueueOptions()


def test_the_same_for_tasks(three: Cluster) -> None:
    async def test() -> None:
        async with kvwal.aio.connect([node.address for node in three.nodes], cluster=CLUSTER, timeout=60) as store:
            q = store.business("tasks").queue("todo")
            options = QueueOptions(capacity=2, redelivery_delay=0.2)
            assert await q.set_options(capacity=2, redelivery_delay=0.2) == options == await q.options()
            await q.put_many(["a", "b"])
            with pytest.raises(queue.Full, match="tasks/queue/todo is full"):
                await q.put("c", timeout=0)
            with pytest.raises(TooLarge):
                await q.put_many(["c", "d", "e"])
            waiting = asyncio.create_task(q.put("never"))
            while (await asyncio.to_thread((await q.opened()).counts))[0] < 2:
                pass
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            putter = asyncio.create_task(q.put("c", delay=0.1))
            async with rolled_back_here(q.transaction()) as t:
                assert await t.take() == "a"
            assert await q.take() == "b"
            assert await putter > 0
            ready, _, _, delayed = await asyncio.to_thread((await q.opened()).counts)
            assert ready + delayed == 2
            assert sorted([await q.take(), await q.take()]) == ["a", "c"]
            assert (await content(q), await q.delayed(), await q.in_flight()) == ([], 0, 0)

    asyncio.run(test())


def test_no_number_of_putters_overruns_the_capacity(three: Cluster, store: Any) -> None:
    q, most, each = store.queue("bounded"), 5, 30
    q.set_options(capacity=most)
    addresses = [node.address for node in three.nodes]

    def put(first: int) -> None:
        with kvwal.connect(addresses, cluster=CLUSTER, timeout=60) as own:
            for number in range(first, first + each):
                own.queue("bounded").put(number)

    putters = [threading.Thread(target=put, args=(first * each,)) for first in range(4)]
    for putter in putters:
        putter.start()
    taken: list[int] = []
    while len(taken) < len(putters) * each:
        ready, in_flight, _, delayed = q.counts()
        assert ready + in_flight + delayed <= most
        taken += q.take_many(2, timeout=600)
    for putter in putters:
        putter.join()
    assert sorted(taken) == list(range(len(putters) * each))
    assert [number for number in taken if number < each] == list(range(each))


def test_a_silent_taker_counts_as_a_delivery(store: Any) -> None:
    q = store.queue("silent")
    q.set_options(max_deliveries=1, dead_letters="dead")
    q.put("a")
    block = QueueBlock(q._calls, Renewals(600.0), 1.0)
    block.hold("queue", 1, decodes=True)
    assert store.business("silent").queue("dead").take(timeout=600) == "a"
    assert (len(q), q.in_flight) == (0, 0)


def test_options_and_deliveries_outlive_the_member_that_decides_and_all_members(three: Cluster, store: Any) -> None:
    node = three.nodes[1]
    with three.client() as client:
        business = store.business(key_owned_by(client, node, NAMES))
    q = business.queue("todo")
    q.set_options(capacity=4, capacity_bytes=1000, max_deliveries=3, dead_letters="dead")
    q.put_many(["a", "b"])
    q.put("later", delay=3600)
    with rolled_back(q.transaction()) as t:
        t.take()
    options = q.options()
    three.kill(node)
    with rolled_back(q.transaction()) as t:
        assert t.take() == "a"
    assert (q.options(), counts(q), q.delayed) == (options, [("a", 2), ("b", 0)], 1)
    with pytest.raises(queue.Full):
        q.put_many(["c", "d"], timeout=0)
    three.start()
    three.restart()
    with kvwal.connect([each.address for each in three.nodes], cluster=CLUSTER, timeout=60) as again:
        q = again.business(business.name).queue("todo")
        assert (q.options(), counts(q), q.delayed) == (options, [("a", 2), ("b", 0)], 1)

        def given_back() -> bool | None:
            """A block that is ended by its item; the first one after the start of all members may have to wait."""
            try:
                with rolled_back(q.transaction()) as t:
                    return bool(t.take_many(1)) or None
            except CommitUnknown:
                return None

        until(given_back)
        assert list(again.business(business.name).queue("dead").browse()) == ["a"]
        assert (counts(q), q.delayed) == ([("b", 0)], 1)
