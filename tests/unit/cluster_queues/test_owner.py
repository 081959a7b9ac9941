"""The owner of the queues of a business: one decides at a time, and what a taker holds is its own until it is silent too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kvwal.cluster.queues.requests import Await, Browse, Count, Purge, Take
from kvwal.entry import Entry
from kvwal.errors import (
    ClusterUnreachable,
    CodecError,
    CommitUnknown,
    ConfigError,
    Overloaded,
    StorageFull,
    TransactionClosed,
)
from tests.support.queue.owners import MAP, QUEUE, VISIBILITY, Owners, values

STATE = Entry(b"last", "map/state:str", b"1", "int", False, 0)


def run(test: Callable[[Owners], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test(Owners()))


def test_items_come_in_the_order_of_commits_and_priorities() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("b", "c")
        await one.put("last", priority=15)
        await one.put("a", priority=-16)
        assert await one.owner.answer(Count(MAP, QUEUE)) == (4, 0, 0, 0)
        assert values(await one.owner.answer(Browse(MAP, QUEUE, b"", 3))) == ["a", "b", "c"]
        assert await one.take(3) == ["a", "b", "c"]
        owners.clock.ms -= 60_000  # positions go on from the last one
        await one.put("d")
        await one.put("e")
        assert await one.take(9) == ["d", "e", "last"]
        assert await one.take(9) == []
        assert await one.queues() == []

    run(test)


def test_puts_at_once_are_one_transaction() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        sizes: list[int] = []
        owners.shared.refusing = lambda entries: sizes.append(len(entries))  # type: ignore[func-returns-value]
        await asyncio.gather(*(one.put(str(number)) for number in range(20)))
        assert sum(sizes) - len(sizes) == 20
        assert len(sizes) < 20
        taken = await asyncio.gather(*(one.take() for _ in range(21)))
        assert sorted(int(value) for found in taken for value in found) == list(range(20))

    run(test)


def test_an_item_of_a_block_is_in_flight_until_the_block_ends() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a", "b", "c")
        held = await one.hold("block", 2)
        assert values(held) == ["a", "b"]
        assert values(await one.hold("block", 2)) == ["a", "b"]  # the client asks again: it had no answer
        assert await one.owner.answer(Count(MAP, QUEUE)) == (1, 2, 0, 0)
        assert await one.take(9) == ["c"]
        assert await one.hold("block", 2, number=2) == []
        await one.give_back("block", 2)
        assert await one.renew("block")
        await one.give_back("block")
        assert not await one.renew("block")
        assert await one.take(9) == ["a", "b"]
        assert owners.shared.claims == {}

    run(test)


def test_a_commit_is_one_transaction() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a", "b", "c")
        held = await one.hold("block", 3)
        await one.commit("block", held[:2], "A", "B", entries=(STATE,))
        assert owners.shared.entries["map/state:str", b"last"].public() == STATE.public()
        assert await one.take(9) == ["c"]  # held, and not taken
        assert values(await one.owner.answer(Take(MAP, "queue/done", 9, ["str"]))) == ["A", "B"]
        assert owners.shared.claims == {}
        with pytest.raises(ConfigError, match="of no map"):
            await one.commit("other", [], entries=(Entry(b"x", "owner:str", b"", "json", False, 0),))

    run(test)


def test_a_silent_block_loses_its_items_and_cannot_be_committed() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a")
        held = await one.hold("block")
        owners.clock.seconds += VISIBILITY - 1
        assert await one.renew("block")
        owners.clock.seconds += VISIBILITY - 1
        assert await one.take() == []
        owners.clock.seconds += 1
        assert values(await one.hold("other")) == ["a"]
        with pytest.raises(TransactionClosed, match="silent for longer"):
            await one.commit("block", held, "A", entries=(STATE,))
        assert ("map/state:str", b"last") not in owners.shared.entries
        await one.commit("other", held)
        assert await one.queues() == []

    run(test)


def test_a_commit_under_way_does_not_expire() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a")
        held = await one.hold("block")

        def later(entries: list[Entry]) -> None:
            owners.clock.seconds += 2 * VISIBILITY

        owners.shared.refusing = later  # type: ignore[assignment]
        committed = asyncio.ensure_future(one.commit("block", held))
        while not owners.clock.seconds:
            await asyncio.sleep(0)
            await one.owner.end_expired()
        await committed
        assert await one.queues() == []

    run(test)


def test_an_owner_before_this_one_can_change_nothing() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a", "b", "c")
        two = await owners.begun()
        calls: list[Callable[[], Any]] = [
            lambda: one.put("d"), one.take, lambda: one.hold("block"), lambda: one.renew("x"), one.queues,
            lambda: one.owner.answer(Count(MAP, QUEUE)), lambda: one.owner.answer(Await(MAP, QUEUE, 0.0)),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(ClusterUnreachable, match="another member decides"):
                await call()
        assert one.owner.is_over
        assert owners.shared.claims == {}
        assert await two.take(9) == ["a", "b", "c"]

    run(test)


def test_an_owner_that_took_and_did_not_hear_of_another_one_takes_nothing() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a")
        held = await one.hold("block")
        two = await owners.begun()
        with pytest.raises(ClusterUnreachable):
            await one.commit("block", held)
        assert await two.take() == []
        await two.commit("block", held)
        assert await two.queues() == []

    run(test)


def test_the_next_owner_knows_what_takers_hold() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a", "b", "c")
        held = await one.hold("block", 1)
        held += await one.hold("block", 1, number=2)
        two = await owners.begun()
        assert await two.take(9) == ["c"]
        owners.clock.seconds += VISIBILITY - 1
        assert await two.renew("block")
        await two.commit("block", held, "A")
        three = await owners.begun()
        assert await three.take(9) == []
        assert await three.queues() == ["queue/done"]

    run(test)


def test_an_owner_before_this_one_gives_nothing_to_a_block() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a", "b")
        held = await one.hold("block")
        two = await owners.begun()
        with pytest.raises(ClusterUnreachable, match="another member decides"):
            await one.hold("other")
        assert [block for _, block in owners.shared.claims] == ["block"]
        assert await two.take(9) == ["b"]
        await two.commit("block", held)

    run(test)


def test_what_an_owner_before_this_one_releases_late_is_its_own() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a")
        held = await one.hold("block")
        two = await owners.begun()
        owners.clock.seconds += VISIBILITY - 1
        assert await two.renew("block")
        owners.clock.seconds += VISIBILITY - 1
        await one.owner.end_expired()  # it heard nothing of the block
        three = await owners.begun()
        assert await three.take() == []
        await three.commit("block", held)

    run(test)


def test_takers_wait_when_memory_lost_what_others_hold() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a")
        held = await one.hold("block")
        owners.shared.lose()
        two = await owners.begun()
        await two.put("b")
        assert await two.take() == []
        assert not await two.owner.answer(Await(MAP, QUEUE, 0.0))
        with pytest.raises(TransactionClosed, match="all members were started again"):
            await two.commit("block", held)
        owners.clock.seconds += VISIBILITY
        assert await two.take(9) == ["a", "b"]

    run(test)


def test_takers_do_not_wait_if_no_block_held_anything() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a", "b")
        assert await one.take() == ["a"]
        owners.shared.lose()
        two = await owners.begun()
        assert await two.take() == ["b"]
        held = await two.hold("block")
        assert held == []
        three = await owners.begun()
        await three.put("c")
        owners.shared.lose()
        assert await (await owners.begun()).take() == ["c"]

    run(test)


def test_an_unknown_outcome_ends_the_owner() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a")

        def lost(entries: list[Entry]) -> str | None:
            raise CommitUnknown("the answer was lost")

        owners.shared.refusing = lost
        with pytest.raises(CommitUnknown):
            await one.take()
        owners.shared.refusing = lambda entries: None
        with pytest.raises(ClusterUnreachable):
            await one.take()
        assert await (await owners.begun()).take() == ["a"]

    run(test)


def test_a_refused_change_leaves_everything() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a")

        def full(entries: list[Entry]) -> str | None:
            raise StorageFull("no room")

        owners.shared.refusing = full
        with pytest.raises(StorageFull):
            await one.take()
        held = await asyncio.gather(one.hold("block"), return_exceptions=True)
        assert isinstance(held[0], StorageFull)
        owners.shared.refusing = lambda entries: None
        assert await one.take() == ["a"]

    run(test)


def test_a_block_whose_key_others_hold_lets_other_changes_go_first() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        held_keys = {b"last"}
        owners.shared.refusing = lambda entries: "BUSY" if held_keys & {entry.key for entry in entries} else None
        waiting = asyncio.ensure_future(one.commit("block", [], "A", entries=(STATE,)))
        await asyncio.gather(*(one.put(str(number)) for number in range(5)))
        assert not waiting.done()
        assert await one.take(5) == list("01234")
        held_keys.clear()
        await waiting
        held_keys.add(b"last")
        waiting = asyncio.ensure_future(one.commit("block", [], "A", entries=(STATE,)))
        await one.put("5")
        owners.clock.seconds += 60
        with pytest.raises(Overloaded, match="held the same keys"):
            await waiting

    run(test)


def test_an_item_that_has_expired_is_not_given() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a", "b", "c", left_ms=1000)
        [first, second, _] = list(owners.shared.entries)[1:]
        del owners.shared.entries[first]
        assert values(await one.hold("block", 1)) == ["b"]
        del owners.shared.entries[second]
        await one.give_back("block")
        assert values(await one.owner.answer(Browse(MAP, QUEUE, b"", 9))) == ["c"]
        assert await one.owner.answer(Purge(MAP, QUEUE, 9)) == 1
        assert await one.queues() == []

    run(test)


def test_an_item_of_an_unknown_codec_stays() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a")
        with pytest.raises(CodecError, match="'str' of an item is not registered at this client"):
            await one.owner.answer(Take(MAP, QUEUE, 1, ["int"]))
        assert await one.take() == ["a"]

    run(test)


def test_a_taker_hears_of_an_item() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        waiting = asyncio.ensure_future(one.owner.answer(Await(MAP, QUEUE, 600.0)))
        await one.put("a")
        assert await waiting
        assert await one.owner.answer(Await(MAP, QUEUE, 600.0))

    run(test)
