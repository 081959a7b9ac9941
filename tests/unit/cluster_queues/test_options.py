"""Options and deliveries of a cluster's queues, where a cluster differs: takers fall silent, owners change, requests wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kvwal.cluster.queues.requests import Await, AwaitRoom, GiveBack, Purge, Put, PutBack, PutItem, Take, encode
from kvwal.entry import Entry
from kvwal.errors import ConfigError, InvalidName, Overloaded, QueueFull, StorageFull, TransactionClosed
from kvwal.structures.queue.options import QueueOptions
from tests.support.queue.owners import MAP, QUEUE, VISIBILITY, Owners, values

DEAD = "queue/dead"


def run(test: Callable[[Owners], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test(Owners()))


def test_a_taker_that_fell_silent_has_given_back_its_items() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.set_options(max_deliveries=2, dead_letters="dead", redelivery_delay=5.0)
        await one.put("a", "b")
        await one.hold("block")
        owners.clock.seconds += VISIBILITY
        assert await one.items() == [(0, "b", 0)]
        assert await one.count() == (1, 0, 1)
        owners.clock.ms += 5_000
        assert await one.items() == [(0, "a", 1), (0, "b", 0)]
        await one.hold("other")
        owners.clock.seconds += VISIBILITY
        assert await one.items() == [(0, "b", 0)]
        assert await one.items(DEAD) == [(0, "a", 0)]
        assert owners.shared.claims == {}

    run(test)


def test_the_next_owner_knows_options_deliveries_and_delays() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.set_options(redelivery_delay=5.0, capacity_bytes=4)
        await one.put("a", "b")
        await one.put("cc", delay_ms=60_000)
        await one.hold("block")
        assert await one.give_back("block", counts=True) is None
        two = await owners.begun()
        assert await two.options() == QueueOptions(redelivery_delay=5.0, capacity_bytes=4)
        assert await two.count() == (1, 0, 2)
        with pytest.raises(QueueFull, match="work/queue is full: its capacity is 4 bytes"):
            await two.put("d")
        owners.clock.ms += 5_000
        assert await two.items() == [(0, "a", 1), (0, "b", 0)]
        assert await two.take(9) == ["a", "b"]
        await two.put("d", "e")
        assert await two.count() == (2, 0, 1)

    run(test)


def test_a_block_that_ends_while_its_delivery_is_written_is_not_committed() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.set_options(redelivery_delay=5.0)
        await one.put("a")
        held = await one.hold("block")
        ended: list[Any] = []

        def meanwhile(entries: list[Entry]) -> None:
            if not ended:
                ended.append(asyncio.run_coroutine_threadsafe(one.commit("block", held), loop))

        loop = asyncio.get_running_loop()
        owners.shared.refusing = meanwhile  # type: ignore[assignment]
        assert await one.give_back("block", counts=True) is None
        with pytest.raises((Overloaded, TransactionClosed), match=r"being committed|back in their queues"):
            await asyncio.wrap_future(ended[0])
        assert await one.count() == (0, 0, 1)

    run(test)


def test_a_delivery_that_cannot_be_written_is_said_and_the_items_are_back() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.set_options(max_deliveries=1, dead_letters="dead")
        await one.put("a")
        await one.hold("block")

        def refuse(entries: list[Entry]) -> None:
            raise StorageFull("the disk is full; nothing was written.")

        owners.shared.refusing = refuse  # type: ignore[assignment]
        assert "the disk is full" in await one.give_back("block", counts=True)
        assert await one.items() == [(0, "a", 0)]
        assert await one.items(DEAD) == []

    run(test)


def test_a_waiting_taker_is_answered_when_an_item_is_due() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a", delay_ms=20)
        assert not await one.owner.answer(Await(MAP, QUEUE, 0.0))
        waiting = asyncio.create_task(one.owner.answer(Await(MAP, QUEUE, 60.0)))
        owners.clock.ms += 20
        assert await waiting
        assert await one.take() == ["a"]

    run(test)


def test_a_request_that_changes_nothing_wakes_nobody() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        waiting = asyncio.create_task(one.owner.answer(Await(MAP, QUEUE, 60.0)))
        while one.owner._news.waiting[QUEUE] < 1:
            await asyncio.sleep(0)
        for _ in range(3):
            await one.count()
            await one.renew("block")
            await one.hold("block")
            await asyncio.sleep(0)
        assert one.owner._news.waiting[QUEUE] == 1
        await one.put("a")
        assert await waiting

    run(test)


def test_a_request_for_room_is_answered_when_there_is_some_or_never_will_be() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.set_options(capacity=2)
        await one.put("a", "b")
        assert not await one.owner.answer(AwaitRoom(MAP, QUEUE, 1, 1, 0.0))
        assert await one.owner.answer(AwaitRoom(MAP, QUEUE, 3, 1, 0.0))  # the put says that it is too large
        waiting = asyncio.create_task(one.owner.answer(AwaitRoom(MAP, QUEUE, 1, 1, 60.0)))
        await asyncio.sleep(0)
        assert await one.take() == ["a"]
        assert await waiting

    run(test)


def test_no_number_of_puts_at_once_overruns_the_capacity() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.set_options(capacity=7)
        found = await asyncio.gather(*(one.put(str(number)) for number in range(20)), return_exceptions=True)
        assert [type(answer) for answer in found if not isinstance(answer, int)] == [QueueFull] * 13
        assert len(await one.items()) == 7

    run(test)


def test_expired_items_make_room_and_are_not_searched_at_every_put() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.set_options(capacity=2)
        await one.put("a", left_ms=1000)
        await one.put("b", left_ms=1500)
        with pytest.raises(QueueFull):
            await one.put("c")
        owners.clock.ms += 1200
        with pytest.raises(QueueFull):  # it looked a moment ago
            await one.put("c")
        owners.clock.seconds += 1.0
        await one.put("c")
        assert await one.items() == [(0, "b", 0), (0, "c", 0)]

    run(test)


def test_a_wrong_option_changes_nothing() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        before = dict(owners.shared.entries)
        for changes in ({"capacity": 0}, {"colour": 1}, {"max_deliveries": 1}, {"dead_letters": ""}):
            with pytest.raises(ConfigError, match="no option was changed"):
                await one.set_options(**changes)
        long = f"queue/{'q' * 115}"
        await one.put("a", structure=long)
        for call in (lambda: one.set_options(long, capacity=1), lambda: one.put("b", delay_ms=1, structure=long)):
            with pytest.raises(InvalidName, match="too long for options and delays"):
                await call()
        assert await one.options() == QueueOptions()
        assert owners.shared.entries.keys() - before.keys() == {
            claim for claim in owners.shared.entries if long in claim[0]
        }

    run(test)


def test_items_that_are_put_back_keep_their_deliveries() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.set_options(redelivery_delay=1.0)
        await one.put("a", "b")
        await one.hold("block")
        await one.give_back("block", counts=True)
        owners.clock.ms += 1000
        taken = await one.owner.answer(Take(MAP, QUEUE, 1, ["str"]))
        assert values(taken) == ["a"]
        assert not [claim for claim in owners.shared.entries if claim[0] == f"{QUEUE}:_delivery"]
        await one.owner.answer(PutBack(MAP, QUEUE, taken))
        two = await owners.begun()
        assert await two.items() == [(0, "a", 1), (0, "b", 0)]

    run(test)


def test_a_purge_takes_delayed_items_and_keeps_options() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.set_options(redelivery_delay=60.0, ttl=60.0)
        await one.put("a", "b")
        await one.put("c", delay_ms=1000)
        await one.hold("block")
        await one.give_back("block", counts=True)
        assert await one.count() == (1, 0, 2)
        assert await one.owner.answer(Purge(MAP, QUEUE, 9)) == 3
        assert [claim for claim in owners.shared.entries if claim[0].startswith(QUEUE)] == [
            (f"{QUEUE}:_options", b"options")
        ]
        assert await one.options() == QueueOptions(redelivery_delay=60.0, ttl=60.0)

    run(test)


def test_a_request_without_options_is_as_an_earlier_member_knows_it() -> None:
    item = PutItem(QUEUE, 0, b"a", "str")
    assert b"delays" not in encode(Put(MAP, [item]))
    assert b"delays" in encode(Put(MAP, [item], {0: 1}))
    assert b"counts" not in encode(GiveBack(MAP, "block"))
