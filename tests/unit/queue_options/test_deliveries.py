"""Deliveries: what is given back is counted, delayed and in the end a dead letter, where the options of the queue say so."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ConfigError, StorageFull, TooLarge
from kvwal.structures.facade import Structures
from kvwal.structures.queue.waiting import TakersOfLog
from tests.support.disk.faults import FakeClock, FakeDisk, open_store
from tests.support.polling import until
from tests.support.queue.blocks import rolled_back


@pytest.fixture
def business(tmp_path: Path) -> Iterator[Structures]:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        yield store.business("work")


def give_back(q: kvwal.Queue, most: int = 1) -> list[Any]:
    """Take items in a block that raises."""
    with rolled_back(q.transaction()) as t:
        return t.take_many(most)
    raise AssertionError


def counts(q: kvwal.Queue) -> list[tuple[Any, int]]:
    return [(item.value, item.deliveries) for item in q.items()]


def test_a_queue_without_options_writes_nothing_for_a_give_back(business: Structures) -> None:
    q = business.queue()
    q.put("a")
    before = business._business.log.writer.applied  # type: ignore[attr-defined]
    give_back(q)
    assert business._business.log.writer.applied == before  # type: ignore[attr-defined]
    assert counts(q) == [("a", 0)]


def test_an_item_that_was_given_back_too_often_is_a_dead_letter(business: Structures) -> None:
    q, dead = business.queue("todo"), business.queue("dead")
    q.set_options(max_deliveries=3, dead_letters="dead")
    q.put_many(["a", "b"], priority=2)
    for deliveries in (1, 2):
        assert give_back(q) == ["a"]
        assert counts(q) == [("a", deliveries), ("b", 0)]
    assert give_back(q, 2) == ["a", "b"]
    assert (counts(q), counts(dead)) == ([("b", 1)], [("a", 0)])
    [item] = dead.items()
    assert item.priority == 2
    assert dead.move("todo", 5) == 1
    assert counts(q) == [("b", 1), ("a", 0)]
    assert q.take_many(5) == ["b", "a"]
    assert business._business.state_of("queue/todo")._deliveries == {}


def test_the_move_to_the_dead_letters_is_one_transaction(business: Structures) -> None:
    q, dead = business.queue(), business.queue("dead")
    q.set_options(max_deliveries=1, dead_letters="dead")
    q.put("a")
    [item] = q.items()
    give_back(q)
    [letter] = dead.items()
    [gone, _] = q.history(item.priority, item.position)
    assert (gone.deleted, gone.timestamp) == (True, letter.timestamp)


def test_dead_letters_have_the_time_to_live_of_their_queue_and_no_other(business: Structures) -> None:
    q, dead = business.queue(), business.queue("dead")
    q.set_options(max_deliveries=1, dead_letters="dead")
    dead.set_options(capacity=1)
    q.put_many(["a", "b"], ttl=3600)
    give_back(q, 2)
    assert [item.expires for item in dead.items()] == [0, 0]  # more than the capacity, too: they are not lost
    dead.purge()
    dead.set_options(ttl=7200)
    q.put("c", ttl=3600)
    give_back(q)
    [item] = dead.items()
    assert item.expires - (item.timestamp >> 16) == pytest.approx(7_200_000, abs=1000)


def test_a_block_of_several_queues_counts_each_as_its_options_say(business: Structures) -> None:
    a, b, c = (business.queue(name) for name in "abc")
    a.set_options(redelivery_delay=3600)
    b.set_options(max_deliveries=1, dead_letters="c")
    for q in (a, b, c):
        q.put("x")
    with rolled_back(business.transaction()) as t:
        assert [t.queue(name).take() for name in "abc"] == ["x"] * 3
    assert (counts(a), a.delayed, counts(b), counts(c)) == ([], 1, [], [("x", 0), ("x", 0)])
    assert [q.in_flight for q in (a, b, c)] == [0, 0, 0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, queue.Empty, queue.Full, StorageFull("full")])
def test_what_is_no_fault_of_the_items_does_not_count(business: Structures, error: Any) -> None:
    q = business.queue()
    q.set_options(max_deliveries=1, dead_letters="dead")
    q.put("a")

    def block() -> None:
        with q.transaction() as t:
            t.take()
            raise error

    with pytest.raises(type(error) if isinstance(error, Exception) else error):
        block()
    assert counts(q) == [("a", 0)]


def test_a_block_that_is_too_large_counts_and_one_without_room_does_not(business: Structures) -> None:
    q, full = business.queue(), business.queue("full")
    q.set_options(max_deliveries=5, dead_letters="dead")
    full.set_options(capacity=1)
    full.put("there")
    q.put("a")

    def block(puts: Callable[[Any], None]) -> None:
        with business.transaction() as t:
            t.queue().take()
            puts(t)

    with pytest.raises(TooLarge):
        block(lambda t: t.map("other").put(bytes(6 << 20), 1))
    assert counts(q) == [("a", 1)]
    with pytest.raises(queue.Full):
        block(lambda t: t.queue("full").put("b"))
    assert counts(q) == [("a", 1)]


def test_a_give_back_that_cannot_be_written_is_noted_and_the_items_are_back(tmp_path: Path) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk=disk, archive=None) as store:
        q = store.queue("work")
        q.set_options(max_deliveries=1, dead_letters="dead")
        q.put("a")
        error = LookupError()

        def block() -> None:
            with q.transaction() as t:
                t.take()
                disk.fail("datasync")
                raise error

        with pytest.raises(LookupError):
            block()
        assert "not counted" in error.__notes__[0]
        assert (counts(q), q.in_flight) == ([("a", 0)], 0)


def test_a_move_without_room_is_no_delivery(business: Structures) -> None:
    q, other = business.queue("todo"), business.queue("other")
    q.set_options(max_deliveries=1, dead_letters="dead")
    other.set_options(capacity=1)
    q.put_many(["a", "b"])
    with pytest.raises(TooLarge):
        q.move("other", 2)
    assert q.move("other", 1) == 1
    with pytest.raises(queue.Full):
        q.move("other", 1)
    assert (counts(q), counts(other), len(business.queue("dead"))) == ([("b", 0)], [("a", 0)], 0)


def test_large_items_are_given_back_in_several_transactions(business: Structures) -> None:
    q = business.queue()
    q.set_options(max_deliveries=1, dead_letters="dead")
    for number in range(4):
        q.put(bytes([number]) * (3 << 20))
    give_back(q, 4)
    assert (len(q), q.in_flight) == (0, 0)
    assert [item[0] for item in business.queue("dead").browse()] == [0, 1, 2, 3]


def test_a_delayed_item_comes_when_it_is_due_at_its_old_place(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock, archive=None) as store:
        q = store.queue("work")
        q.set_options(redelivery_delay=10)
        q.put_many(["a", "b", "c"])
        assert give_back(q) == ["a"]
        assert (list(q.browse()), len(q), q.delayed) == (["b", "c"], 2, 1)
        assert give_back(q) == ["b"]
        assert q.take(timeout=0) == "c"
        with pytest.raises(queue.Empty):
            q.take(timeout=0)
        assert not q
    clock.ms += 5_000
    clock.seconds += 5
    with open_store(tmp_path, clock=clock, archive=None) as store:
        q = store.queue("work")
        assert (len(q), q.delayed) == (0, 2)
        clock.ms += 5_000
        assert (counts(q), q.delayed) == ([("a", 1), ("b", 1)], 0)
        q.put("d", delay=1)
        q.put("e")
        assert q.take_many(9) == ["a", "b", "e"]
        clock.ms += 1_000
        assert q.take_many(9) == ["d"]


def test_a_waiting_taker_is_woken_when_an_item_is_due(business: Structures) -> None:
    q = business.queue()
    got: list[Any] = []
    q.put("later", delay=0.05)
    q.put("much later", delay=3600)
    assert q.take() == "later"
    taking = threading.Thread(target=lambda: got.append(q.take()))
    taking.start()
    until(lambda: q._state.waiters.takers or None)
    q.put("soon", delay=0.02)  # before the item that the alarm was set for
    taking.join()
    q.set_options(redelivery_delay=0.02)
    q.put("again")
    with rolled_back(q.transaction()) as t:
        assert t.take() == "again"
        taking = threading.Thread(target=lambda: got.append(q.take()))
        taking.start()
        until(lambda: q._state.waiters.takers or None)
    taking.join()
    assert got == ["soon", "again"]


def test_a_waiting_taker_asks_nothing_until_an_item_is_due(
    business: Structures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No polling: one alarm for the item that is due first, and none while nobody waits."""
    set_for: list[float] = []
    later = business._business.call_after
    monkeypatch.setattr(
        business._business, "call_after", lambda seconds, call: (set_for.append(seconds), later(seconds, call))
    )
    q = business.queue()
    q.put_many(["x", "y"], delay=3600)
    assert set_for == []
    assert q.take_many(1, timeout=0.001) == []
    assert q.take_many(1, timeout=0.001) == []
    assert len(set_for) == 1
    assert set_for[0] == pytest.approx(3600, abs=60)
    assert isinstance(q._takers, TakersOfLog)


def test_purge_takes_delayed_items_and_keeps_options(business: Structures) -> None:
    q = business.queue()
    options = q.set_options(redelivery_delay=3600, capacity=9)
    q.put_many(["a", "b"], delay=3600)
    q.put_many(["c", "d"])
    give_back(q)
    assert (len(q), q.delayed) == (1, 3)
    assert q.purge() == 4
    assert (len(q), q.delayed, q.options()) == (0, 0, options)


def test_the_past_shows_deliveries_and_no_options(business: Structures) -> None:
    q = business.queue()
    q.set_options(max_deliveries=5, dead_letters="dead")
    q.put("a")
    watch = q.watch()
    give_back(q)
    moment = business.map().put("key", 1)
    give_back(q)
    q.take()
    assert [(item.value, item.deliveries) for item in q.at(moment)] == [("a", 1)]
    assert [change.deleted for change in watch.poll()] == [True]


def test_an_item_that_expires_takes_what_is_known_of_it_along(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock, archive=None) as store:
        q = store.queue("work")
        q.set_options(redelivery_delay=3600)
        q.put_many(["a", "b"], ttl=10)
        give_back(q)
        with rolled_back(q.transaction()) as t:
            assert t.take() == "b"
            clock.ms += 10_000
        assert (list(q.browse()), q.in_flight) == ([], 0)
        q._state.free_expired()
        assert (q._state.room, q._state._deliveries, q.delayed) == ((0, 0), {}, 0)


def test_a_delay_is_a_time(business: Structures) -> None:
    q = business.queue()
    for delay in (0, -1, True, "1", float("inf")):
        with pytest.raises(ConfigError, match=r"delay=.* must be a number of seconds"):
            q.put("x", delay=delay)  # type: ignore[arg-type]
    assert len(q) + q.delayed == 0
