"""Capacity: puts wait for room, or are refused; no number of putters overruns it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ConfigError, QueueFull, StorageFull, StoreClosed, TooLarge
from kvwal.structures.facade import Structures
from kvwal.structures.queue.capacity import Room
from kvwal.structures.queue.waiters import Putter
from tests.support.disk.faults import FakeClock, FakeDisk, open_store
from tests.support.polling import until
from tests.support.queue.blocks import rolled_back

CAPACITY = 5


@pytest.fixture
def business(tmp_path: Path) -> Iterator[Structures]:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        yield store.business("work")


def in_thread(call: Callable[[], Any], ended: list[Any]) -> threading.Thread:
    """A thread that makes the call. What it returns, or raises, is in the list then."""

    def made() -> None:
        try:
            ended.append(call())
        except kvwal.KvwalError as error:
            ended.append(error)

    thread = threading.Thread(target=made)
    thread.start()
    return thread


def putters(q: kvwal.Queue, number: int) -> None:
    """Return when `number` putters wait for room."""
    until(lambda: q._state.waiters.putters == number or None)


def most_at_once(q: kvwal.Queue, start: int) -> int:
    """The most items that the log had at any of its positions."""
    there = most = 0
    for change in q.watch(after=start).poll():
        there += -1 if change.deleted else 1
        most = max(most, there)
    return most


def test_no_number_of_putters_overruns_the_capacity(business: Structures) -> None:
    q = business.queue()
    start = business.map().put("begin", 1)
    q.set_options(capacity=CAPACITY)
    each, number = 60, 4
    got: list[Any] = []

    def produce(producer: int) -> None:
        for count in range(0, each, 3):
            q.put([producer, count])
            q.put_many([[producer, count + 1], [producer, count + 2]])

    def take() -> None:
        for _ in range(each):
            with q.transaction() as t:
                got.append(t.take())

    threads = [threading.Thread(target=produce, args=(producer,)) for producer in range(number)]
    threads += [threading.Thread(target=take) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [[producer, count] for producer in range(number) for count in range(each)]
    assert (len(q), q.in_flight) == (0, 0)
    assert most_at_once(q, start) == CAPACITY


def test_a_full_queue_refuses_and_says_so(business: Structures) -> None:
    q = business.queue("todo")
    q.set_options(capacity=2)
    q.put_many(["a", "b"])
    for put in (lambda: q.put("c", timeout=0), lambda: q.put("c", timeout=0.001), lambda: q.put_many(["c"], timeout=0)):
        with pytest.raises(queue.Full, match="work/queue/todo is full: its capacity is 2 items; nothing was put"):
            put()
    assert list(q.browse()) == ["a", "b"]
    q.take()
    q.put("c", timeout=0)
    assert list(q.browse()) == ["b", "c"]
    with pytest.raises(ConfigError, match="timeout"):
        q.put("d", timeout=-1)


def test_what_can_never_fit_is_refused_at_once(business: Structures) -> None:
    q = business.queue()
    q.set_options(capacity=2, capacity_bytes=10)
    for put in (lambda: q.put_many(["a", "b", "c"]), lambda: q.put("x" * 11)):
        with pytest.raises(TooLarge, match="more than its capacity of 2 items and 10 bytes; nothing was put"):
            put()

    def block() -> None:
        with business.transaction() as t:
            t.queue().put_many(["a", "b", "c"])
            t.map()["key"] = 1

    with pytest.raises(TooLarge):
        block()
    assert (len(q), len(business.map())) == (0, 0)


def test_bytes_are_counted_as_items_are(business: Structures) -> None:
    q = business.queue()
    q.set_options(capacity_bytes=10)
    q.put_many(["x" * 4, "y" * 6])
    with pytest.raises(queue.Full, match="its capacity is 10 bytes"):
        q.put("z", timeout=0)
    q.put("", timeout=0)
    assert q.take() == "x" * 4
    with pytest.raises(queue.Full):
        q.put("z" * 5, timeout=0)
    q.put("z" * 4, timeout=0)


def test_an_item_in_flight_and_a_delayed_one_count(business: Structures) -> None:
    q = business.queue()
    q.set_options(capacity=2)
    q.put("later", delay=3600)
    q.put("held")
    with rolled_back(q.transaction()) as t:
        assert t.take() == "held"
        with pytest.raises(queue.Full):
            q.put("more", timeout=0)
    assert (len(q), q.delayed) == (1, 1)


def test_a_block_without_room_changes_nothing(business: Structures) -> None:
    q, other = business.queue(), business.queue("other")
    other.set_options(capacity=1)
    other.put("there")
    q.put_many(["a", "b"])

    def block() -> None:
        with business.transaction() as t:
            t.queue("other").put(t.queue().take())
            t.map()["key"] = 1

    with pytest.raises(queue.Full, match="work/queue/other is full"):
        block()
    with pytest.raises(queue.Full):
        q.move("other", 1)
    assert (list(q.browse()), q.in_flight, len(business.map()), list(other.browse())) == (["a", "b"], 0, 0, ["there"])


def test_a_block_that_takes_as_much_as_it_puts_has_room(business: Structures) -> None:
    q = business.queue()
    q.put_many(["a", "b", "c"])
    q.set_options(capacity=2)  # below what is there
    with q.transaction() as t:
        t.put(t.take())
    with pytest.raises(queue.Full), q.transaction() as t:
        t.put_many([t.take(), "d"])
    assert list(q.browse()) == ["b", "c", "a"]


@pytest.mark.parametrize("puts", [1, 2])
def test_a_take_a_purge_a_commit_and_an_option_wake_a_putter(business: Structures, puts: int) -> None:
    q = business.queue()
    q.set_options(capacity=2)
    ended: list[Any] = []

    def commit() -> None:
        with q.transaction() as t:
            t.take_many(2)

    for make_room in (lambda: q.take_many(puts), q.purge, commit, lambda: q.set_options(capacity=puts + 2)):
        q.put_many(["a", "b"])
        thread = in_thread(lambda: q.put_many(["new"] * puts), ended)
        putters(q, 1)
        make_room()
        thread.join()
        assert ended.pop() > 0
        assert list(q.browse())[-puts:] == ["new"] * puts
        q.purge()
        q.set_options(capacity=2)


def test_an_item_that_expires_makes_room(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock, archive=None) as store:
        q = store.queue("work")
        q.set_options(capacity=1)
        q.put("short", ttl=1)
        with pytest.raises(queue.Full):
            q.put("early", timeout=0)
        clock.ms += 1_000
        q.put("next", ttl=100, timeout=0)
        assert list(q.browse()) == ["next"]
        ended: list[Any] = []
        thread = in_thread(lambda: q.put("last"), ended)
        putters(q, 1)
        clock.ms += 200_000  # the sweep of the store frees it, about every second
        thread.join()
        assert list(q.browse()) == ["last"]


def test_each_room_wakes_the_putters_in_their_order(business: Structures) -> None:
    q = business.queue()
    q.set_options(capacity=3)
    q.put_many(["a", "b", "c"])
    ended: list[Any] = []
    threads = []
    for number, items in enumerate((["d", "e"], ["f"], ["g"]), 1):
        threads.append(in_thread(lambda items=items: q.put_many(items), ended))
        putters(q, number)
    q.take()
    putters(q, 3)  # the first one needs room for two, and the others are behind it
    q.take()
    threads[0].join()
    assert list(q.browse()) == ["c", "d", "e"]
    putters(q, 2)
    q.take_many(2)
    for thread in threads[1:]:
        thread.join()
    assert q.peek() == "e"
    assert sorted(q.browse()) == ["e", "f", "g"]


def test_a_putter_that_gives_up_wakes_the_next_one(business: Structures) -> None:
    q = business.queue()
    q.set_options(capacity=2)
    q.put_many(["a", "b"])
    ended: list[Any] = []
    large = in_thread(lambda: q.put_many(["c", "d"], timeout=0.2), ended)
    putters(q, 1)
    small = in_thread(lambda: q.put("e"), ended)
    until(lambda: q._state.waiters.putters + len(ended) == 2 or None)
    q.take()
    large.join()
    small.join()
    assert sorted(type(one).__name__ for one in ended) == ["QueueFull", "int"]
    assert list(q.browse()) == ["b", "e"]


def test_a_take_wakes_who_waits_for_room(business: Structures) -> None:
    q = business.queue()
    q.set_options(capacity=1)
    q.put("a")
    woken: list[str] = []
    q._state.waiters.expect_room(Putter(lambda: woken.append("first"), Room(1, 1)))
    q._state.waiters.expect_room(Putter(lambda: woken.append("second"), Room(1, 1)))
    assert woken == []
    q.take()
    assert woken == ["first"]


def test_a_woken_putter_that_gives_up_wakes_the_next_one(business: Structures) -> None:
    q = business.queue()
    q.set_options(capacity=1)
    q.put("a")
    woken: list[str] = []
    first, second, third = (
        Putter(lambda name=name: woken.append(name), Room(1, 1)) for name in ("first", "second", "third")
    )
    for putter in (first, second, third):
        q._state.waiters.expect_room(putter)
    q._state.waiters.forget_putter(second)
    assert woken == []
    q.take()
    assert woken == ["first"]
    q._state.waiters.forget_putter(first)
    assert woken == ["first", "third"]


def test_a_capacity_that_becomes_too_small_ends_a_wait(business: Structures) -> None:
    q = business.queue()
    q.set_options(capacity=2)
    q.put_many(["a", "b"])
    ended: list[Any] = []
    thread = in_thread(lambda: q.put_many(["c", "d"]), ended)
    putters(q, 1)
    q.set_options(capacity=1)
    thread.join()
    assert isinstance(ended[0], TooLarge)


def test_the_end_of_the_store_ends_the_wait_of_a_putter(tmp_path: Path) -> None:
    ended: list[Any] = []
    with kvwal.open(tmp_path, archive=None) as store:
        q = store.queue("work")
        q.set_options(capacity=1)
        q.put("a")
        threads = [in_thread(lambda: q.put("b"), ended) for _ in range(3)]
        putters(q, 3)
    for thread in threads:
        thread.join()
    assert [type(error) for error in ended] == [StoreClosed] * 3


def test_a_put_that_was_not_written_takes_no_room(tmp_path: Path) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk=disk, archive=None) as store:
        q = store.queue("work")
        q.set_options(capacity=1)
        disk.full = True
        with pytest.raises(StorageFull):
            q.put(bytes(4 << 20))
        disk.full = False
        q.put("a", timeout=0)
        assert isinstance(refusal(q), QueueFull)


def refusal(q: kvwal.Queue) -> Any:
    try:
        return q.put("more", timeout=0)
    except queue.Full as error:
        return error


def test_puts_of_one_group_are_counted_one_after_the_other(tmp_path: Path) -> None:
    """All of them wait for the writer, so one group has them: those that came first have room."""
    disk = FakeDisk()
    with open_store(tmp_path, disk=disk, archive=None) as store:
        q = store.queue("work")
        q.set_options(capacity=CAPACITY)
        q.put_many(["a", "b"])
        disk.hold("datasync")
        ended: list[Any] = []
        threads = [in_thread(lambda: store.map("work").put("key", 1), [])]
        disk.wait_for("held datasync", 1)
        calls = [lambda: q.take_many(1), *[lambda: q.put("c", timeout=0)] * 6]
        for slots, call in enumerate(calls, 1):
            threads.append(in_thread(call, ended))
            until(lambda slots=slots: store.stats()["businesses"]["work"]["ring_slots"] == slots or None)
        disk.go_on()
        for thread in threads:
            thread.join()
        assert sum(isinstance(one, QueueFull) for one in ended) == 2
        assert list(q.browse()) == ["b", "c", "c", "c", "c"]
