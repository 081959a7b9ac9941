"""Ends that meet: blocks that expire together, requests that are sent twice, a node that leaves while it writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kvwal.cli.output import OutputFailed
from kvwal.client.queues.aio_waiting import _taken
from kvwal.cluster.queues.requests import (
    MOST_CLASS_BYTES,
    AwaitRoom,
    Item,
    Put,
    PutItem,
    QueueRequest,
    Take,
    decode_request,
    encode,
)
from kvwal.entry import Entry
from kvwal.errors import ConfigError, InvalidName, TransactionClosed
from kvwal.node.requests.loop import RequestLoop
from kvwal.structures.queue.positions import delivery_class, options_class
from kvwal.structures.transaction import is_of_the_items
from tests.support.queue.owners import MAP, QUEUE, VISIBILITY, Asked, Owners, OwnersView, values

DEAD = "queue/dead"


_paused: list[Paused] = []


def run(test: Callable[[Owners], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        try:
            await test(Owners())
        finally:  # a test that fails leaves no call that waits
            while _paused:
                _paused.pop().go()

    asyncio.run(main())


class Paused:
    """A call of a worker that waits until the test lets it go on."""

    def __init__(self) -> None:
        _paused.append(self)
        self._begun = threading.Event()
        self._go = threading.Event()

    def wait(self, *given: Any) -> None:
        """The call."""
        self._begun.set()
        self._go.wait()

    async def begun(self) -> None:
        """Return when the call waits."""
        await asyncio.to_thread(self._begun.wait)

    def go(self) -> None:
        """Let it go on, and all calls after it."""
        self._go.set()


@pytest.mark.parametrize("most", [1, 9])
def test_blocks_that_expire_together_are_counted_once(most: int) -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.set_options(max_deliveries=most, dead_letters="dead")
        await one.put("a", "b")
        held = [await one.hold("A"), await one.hold("B")]
        owners.clock.seconds += VISIBILITY
        slow = Paused()
        owners.shared.refusing = slow.wait  # type: ignore[assignment]
        ends = [asyncio.create_task(one.owner.end_expired())]
        await slow.begun()
        ends += [asyncio.create_task(one.owner.end_expired()) for _ in range(3)]
        with pytest.raises(TransactionClosed):
            await one.commit("B", held[1])
        assert not await one.renew("B")
        assert await one.count() == (0, 2, 0)  # another taker's request does not wait for it
        slow.go()
        await asyncio.gather(*ends)
        found, dead = await one.items(), await one.items(DEAD)
        assert (found, dead) == (([], [(0, "a", 0), (0, "b", 0)]) if most == 1 else ([(0, "a", 1), (0, "b", 1)], []))
        assert owners.shared.claims == {}

    run(test)


def test_blocks_without_options_that_expire_together_end_once() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a", "b", "c")
        await one.hold("A")
        await one.hold("B")
        owners.clock.seconds += VISIBILITY
        await asyncio.gather(one.owner.end_expired(), one.count(), one.owner.end_expired())
        assert await one.count() == (3, 0, 0)

    run(test)


def test_a_live_block_is_renewed_while_dead_ones_are_counted() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.set_options(redelivery_delay=1.0)
        await one.put("a", "b")
        await one.hold("dead")
        owners.clock.seconds += 1
        await one.hold("live")
        owners.clock.seconds += VISIBILITY - 1
        slow = Paused()
        owners.shared.refusing = slow.wait  # type: ignore[assignment]
        counting = asyncio.create_task(one.owner.end_expired())
        await slow.begun()
        assert await one.renew("live")
        slow.go()
        await counting

    run(test)


def test_a_request_to_hold_that_is_sent_twice_holds_once() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("a", "b")
        first, second = await asyncio.gather(one.hold("A"), one.hold("A"))
        assert values(first) == values(second)
        assert await one.count() == (1, 1, 0)
        await one.give_back("A")
        assert await one.count() == (2, 0, 0)

    run(test)


def test_the_size_of_an_item_that_was_taken_meanwhile_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("aaaa", "bbbb")
        await one.set_options(capacity_bytes=8)
        slow, real = Paused(), OwnersView.entries

        def entries(self: OwnersView, claims: list[tuple[str, bytes]]) -> list[Entry]:
            found = real(self, claims)
            if len(claims) == 2:
                slow.wait()
            return found

        monkeypatch.setattr(OwnersView, "entries", entries)
        room = asyncio.create_task(one.owner.answer(AwaitRoom(MAP, QUEUE, 1, 4, 0.0)))
        await slow.begun()
        assert await one.take() == ["aaaa"]
        slow.go()
        await room
        assert await one.take() == ["bbbb"]
        await one.put("cccccccc")

    run(test)


class Question:
    """What a client asked a node, and what it was told."""

    def __init__(self, request: QueueRequest) -> None:
        self.said: list[str] = []
        self._request = request

    def text(self) -> bytes:
        return encode(self._request)

    def answer(self, answer: bytes) -> None:
        self.said.append("answered")

    def refuse(self, why: str) -> None:
        self.said.append(why.partition(":")[0])


@pytest.mark.parametrize("kind", ["put", "take"])
def test_a_node_that_leaves_does_not_refuse_what_it_writes(kind: str) -> None:
    """The client would ask another member: the item would be put twice, or another one taken, too."""

    async def test(owners: Owners) -> None:
        one = await owners.begun()
        await one.put("first")
        slow = Paused()
        owners.shared.refusing = slow.wait  # type: ignore[assignment]
        request = Put(MAP, [PutItem(QUEUE, 0, b"x", "str")]) if kind == "put" else Take(MAP, QUEUE, 1, ["str"])
        asked = Question(request)
        loop = RequestLoop(None, owners.workers, _answers(one))
        task = asyncio.create_task(loop._answer(asked))
        await slow.begun()
        waits = asyncio.create_task(one.put("not begun"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert asked.said[0] == "CommitUnknown"
        assert one.owner.is_over
        slow.go()
        assert "another member decides" in str((await asyncio.gather(waits, return_exceptions=True))[0])

    run(test)


def _answers(one: Asked) -> Callable[[bytes], Coroutine[Any, Any, bytes]]:
    async def answer(text: bytes) -> bytes:
        request = decode_request(text)
        return encode(await one.owner.answer(request))

    return answer


def test_a_take_whose_task_is_cancelled_twice_is_undone_once() -> None:
    async def test(owners: Owners) -> None:
        take, undo, undone = Paused(), Paused(), list[Any]()

        class Client:
            async def on_thread(self, call: Callable[[], Any]) -> Any:
                return await owners.workers.run(call)

            async def structures(self, name: str) -> Any:
                raise NotImplementedError

        item = Item(b"key", b"a", "str")

        def taken() -> list[Item]:
            take.wait()
            return [item]

        def put_back(items: list[Item]) -> None:
            undo.wait()
            undone.append(items)

        task = asyncio.create_task(_taken(Client(), taken, put_back))
        await take.begun()
        task.cancel()
        take.go()
        await undo.begun()
        task.cancel()
        undo.go()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert undone == [[item]]

    run(test)


def test_a_wrong_request_is_refused_and_the_owner_goes_on() -> None:
    async def test(owners: Owners) -> None:
        one = await owners.begun()
        with pytest.raises(ConfigError, match="a delay is of no item"):
            await one.owner.answer(Put(MAP, [PutItem(QUEUE, 0, b"a", "str")], {5: 10}))
        long = f"queue/{'n' * 112}"
        assert len(options_class(long)) == MOST_CLASS_BYTES < len(delivery_class(long))
        with pytest.raises(InvalidName, match="too long for options"):
            await one.set_options(long, redelivery_delay=5.0)
        with pytest.raises(InvalidName, match="too long for options"):
            await one.set_options(max_deliveries=1, dead_letters=long.partition("/")[2])
        await one.put("a")
        assert await one.take() == ["a"]

    run(test)


def test_an_output_that_failed_is_no_fault_of_the_items() -> None:
    assert not is_of_the_items(OutputFailed(OSError("no space")))
    assert is_of_the_items(ValueError("a bad item"))
