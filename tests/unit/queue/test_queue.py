"""Queues: each item is given to one taker, in the order of the puts; what a block holds comes back if the block fails."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal import codecs
from kvwal.entry import Entry
from kvwal.structures.facade import Structures
from kvwal.structures.guards import guards_alone
from kvwal.structures.queue.positions import key_of, position_of, priority_of
from kvwal.structures.queue.state import QueueState
from kvwal.structures.queue_items.reservation import Reservation
from tests.support.disk.faults import FakeClock, FakeDisk, open_store
from tests.support.polling import until
from tests.support.queue.blocks import rolled_back


@pytest.fixture
def business(tmp_path: Path) -> Iterator[Structures]:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        yield store.business("work")


@pytest.mark.parametrize("fails", [False, True])
def test_takers_of_many_threads_get_each_item_once(business: Structures, fails: bool) -> None:
    """And each taker gets the items of one producer in their order, unless blocks that fail give some back meanwhile."""
    q = business.queue()
    producers, takers, each = 4, 4, 150
    got: list[list[tuple[int, int]]] = [[] for _ in range(takers)]

    def produce(producer: int) -> None:
        for number in range(0, each, 3):
            q.put([producer, number])
            with q.transaction() as t:
                t.put_many([[producer, number + 1], [producer, number + 2]])

    def take(mine: list[tuple[int, int]]) -> None:
        while (item := tuple(q.take())) != (-1, -1):
            mine.append(item)
            if fails:
                with rolled_back(q.transaction()) as t:
                    t.take_many(2)

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(producers)]
    waiting = [threading.Thread(target=take, args=(mine,)) for mine in got]
    for thread in threads + waiting:
        thread.start()
    for thread in threads:
        thread.join()
    q.put_many([[-1, -1]] * takers, priority=15)
    for thread in waiting:
        thread.join()
    assert sorted(item for mine in got for item in mine) == [(p, n) for p in range(producers) for n in range(each)]
    if not fails:
        for numbers in ([n for p, n in mine if p == producer] for mine in got for producer in range(producers)):
            assert numbers == sorted(numbers)
    assert not q
    assert q.in_flight == 0


def test_a_taker_waits_for_an_item_and_for_one_that_comes_back(business: Structures) -> None:
    q = business.queue()
    got: list[Any] = []
    with rolled_back(q.transaction()) as t:
        q.put("only")
        assert t.take() == "only"
        waiting = threading.Thread(target=lambda: got.append(q.take()))
        waiting.start()
        assert list(q.browse()) == []
    waiting.join()
    assert got == ["only"]


def test_an_empty_queue_says_so(business: Structures) -> None:
    q = business.queue("todo")
    for ask in (lambda: q.take(timeout=0), lambda: q.take(timeout=0.001), q.peek):
        with pytest.raises(queue.Empty, match="work/queue/todo: there is no item to take"):
            ask()
    assert q.take_many(3) == []
    with pytest.raises(queue.Empty), q.transaction() as t:
        t.take(timeout=0)


def test_the_end_of_the_store_ends_every_wait(tmp_path: Path) -> None:
    ended: list[BaseException] = []

    def take(q: Any) -> None:
        try:
            q.take()
        except kvwal.StoreClosed as error:
            ended.append(error)

    store = kvwal.open(tmp_path, archive=None)
    waiting = [threading.Thread(target=take, args=(store.queue("work"),)) for _ in range(3)]
    for thread in waiting:
        thread.start()
    store.close()
    for thread in waiting:
        thread.join()
    assert len(ended) == 3


def test_a_failed_disk_ends_every_wait_and_gives_items_back(tmp_path: Path) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk=disk, archive=None) as store:
        q = store.queue("work")
        q.put_many(["a", "b"])
        disk.fail("datasync")
        with pytest.raises(kvwal.CommitUnknown):
            q.take()
        assert list(q.browse()) == ["a", "b"]
        with pytest.raises(kvwal.LogFailed):
            q.take()
        with pytest.raises(kvwal.LogFailed):
            store.queue("work").take(timeout=None)


def test_a_take_of_a_block_that_is_refused_leaves_its_items_though_the_block_goes_on(tmp_path: Path) -> None:
    """The disk is full for the group of the take, in which another thread puts something large."""
    disk = FakeDisk()
    with open_store(tmp_path, disk=disk, archive=None) as store:
        q = store.queue("work")
        q.put_many(["a", "b"])
        refused: list[BaseException] = []

        def refuse(call: Callable[[], Any]) -> None:
            with pytest.raises(kvwal.StorageFull) as raised:
                call()
            refused.append(raised.value)

        with q.transaction() as t:
            disk.hold("datasync")
            threads = [threading.Thread(target=q.put, args=("c",))]
            threads[0].start()
            disk.wait_for("held datasync", 1)
            disk.full = True
            threads += [
                threading.Thread(target=refuse, args=(call,))
                for call in (t.take, lambda: q.put_many([bytes(200 << 10)] * 20))
            ]
            for slots, thread in enumerate(threads[1:], 1):
                thread.start()
                until(lambda slots=slots: store.stats()["businesses"]["work"]["ring_slots"] == slots or None)
            disk.go_on()
            for thread in threads:
                thread.join()
            disk.full = False
            assert len(refused) == 2
            assert list(q.browse()) == ["a", "b", "c"]
            assert t.take() == "a"
        assert (list(q.browse()), q.in_flight) == (["b", "c"], 0)


def test_what_has_expired_is_not_taken(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock, archive=None) as store:
        q = store.queue("work")
        q.put("short", ttl=1)
        q.put("long", ttl=100)
        clock.ms += 2_000
        assert list(q.browse()) == ["long"]
        assert q.take_many(5) == ["long"]
        assert not q
        with pytest.raises(kvwal.CodecError, match="ttl"):
            q.put("x", ttl=-1)


@pytest.mark.parametrize("name", ["todo", "a.b", "a-b_1"])
def test_structures_of_one_business_are_apart(business: Structures, name: str) -> None:
    business.map()["key"] = "own"
    business.map(name)["key"] = "named"
    business.queue().put("own")
    business.queue(name).put("named")
    assert dict(business.map()) == {"key": "own"}
    assert dict(business.map(name)) == {"key": "named"}
    assert (list(business.queue().browse()), list(business.queue(name).browse())) == (["own"], ["named"])
    business.map().clear()
    assert business.queue().purge() == 1
    assert (dict(business.map(name)), list(business.queue(name).browse())) == ({"key": "named"}, ["named"])


def test_bad_arguments_are_refused_and_nothing_is_done(business: Structures) -> None:
    q = business.queue()
    q.put("item")
    refused = [
        lambda: q.put("x", priority=16),
        lambda: q.put("x", priority=True),
        lambda: q.take(timeout=-1),
        lambda: q.take(timeout="1"),
        lambda: q.take_many(0),
        lambda: q.take_many(1.5),
        lambda: q.move("other", 0),
        lambda: business.queue("../other"),
        lambda: business.map("_other"),
    ]
    for call in refused:
        with pytest.raises(kvwal.ConfigError):
            call()
    with pytest.raises(kvwal.CodecError):
        q.put_many(["x", object()])
    assert list(q.browse()) == ["item"]
    assert q.in_flight == 0


def test_a_transaction_is_over_after_its_block(business: Structures) -> None:
    q = business.queue()
    with q.transaction() as t:
        t.put("x")
    for call in (t.take, lambda: t.put("y"), lambda: t.take_many(1)):
        with pytest.raises(kvwal.TransactionClosed):
            call()
    with pytest.raises(kvwal.TransactionClosed), t:
        pass
    assert list(q.browse()) == ["x"]


def test_a_transaction_that_is_too_large_leaves_everything(business: Structures) -> None:
    q = business.queue()
    q.put("x")
    t = business.transaction()
    t.__enter__()
    t.queue().take()
    t.queue().put("y")
    t.map()["y" * 6_000_000] = "y"
    with pytest.raises(kvwal.TooLarge):
        t.__exit__(None, None, None)
    assert list(q.browse()) == ["x"]
    assert q.in_flight == 0


def test_a_watch_shows_puts_and_takes(business: Structures) -> None:
    q = business.queue()
    watch, of_map = q.watch(), business.map().watch()
    q.put("x")
    business.queue("other").put("y")
    q.take()
    assert [(change.value, change.deleted) for change in watch.poll()] == [(b"x", False), (b"", True)]
    assert of_map.poll() == []
    q.put("next")
    [item] = q.items()
    q.take()
    [taken, put] = q.history(item.priority, item.position)
    assert (put.value, put.deleted, taken.deleted) == (b"next", False, True)


def test_positions_grow_over_a_clock_that_steps_back_and_an_empty_queue(tmp_path: Path) -> None:
    clock = FakeClock()
    positions = []
    for _ in range(3):
        with open_store(tmp_path, clock=clock, archive=None) as store:
            q = store.queue("work")
            q.put_many(range(3))
            positions += [item.position for item in q.items()]
            q.purge()
            store.checkpoint()  # the deletes are not kept: without an archive there is no history
        clock.ms -= 3_000
    assert positions == sorted(set(positions))


def test_a_key_is_of_64_bits_and_orders_by_priority_then_position() -> None:
    last = (1 << 58) - 1
    places = [(priority, position) for priority in (-16, -1, 0, 15) for position in (0, 1, last)]
    keys = [key_of(*place) for place in places]
    assert keys == sorted(keys)
    assert [(priority_of(key), position_of(key)) for key in keys] == places
    assert all(len(key) <= 9 for key in keys)


def test_a_queue_of_no_order_gives_items_in_order_and_counts_their_bytes() -> None:
    """A snapshot gives items sorted by key, and a put that comes back gives one in the middle."""
    state = QueueState(guards_alone(lambda: 0))
    numbers = count(1)
    entries = [Entry(key_of(0, n), "queue:int", b"x" * n, "bytes", False, next(numbers)) for n in (5, 1, 3)]
    state.apply(entries)
    assert [len(entry.value) for entry in state.items()] == [1, 3, 5]
    held = Reservation()
    assert [len(entry.value) for entry in state.hand_out(2, held)] == [1, 3]
    assert (state.count(), state.in_flight, state.size) == (1, 2, 9)
    state.apply([Entry(held.entries[0].key, "queue:int", b"", "", True, next(numbers))])
    state.give_back(held)
    assert ([len(entry.value) for entry in state.items()], state.in_flight, state.size) == ([3, 5], 0, 8)
    assert state.hand_out(1, held) == []


def test_an_item_that_cannot_be_decoded_here_is_not_taken(
    business: Structures, monkeypatch: pytest.MonkeyPatch
) -> None:
    q = business.queue()
    with monkeypatch.context() as other:
        codec = codecs.registry.by_name["int"]._replace(name="own")
        other.setitem(codecs.registry.by_type, int, codec)
        q.put(1)
    q.put("next")
    for take in (lambda: q.take(timeout=0), lambda: q.take_many(2)):
        with pytest.raises(kvwal.CodecError, match="the codec 'own' is not registered here"):
            take()
    assert (len(q), q.in_flight) == (2, 0)
    with q.transaction() as t:  # nor in a block that goes on
        with pytest.raises(kvwal.CodecError, match="the codec 'own' is not registered here"):
            t.take(timeout=0)
        assert len(t.hold(1)) == 1  # as it is stored
        t.put("last")
    assert list(q.browse()) == ["next", "last"]
    assert q.purge() == 2
