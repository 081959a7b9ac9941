"""Options of a queue: stored in the log, changed by one call, and refused by a sentence where they cannot be."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kvwal
from kvwal.entry import Entry
from kvwal.errors import ConfigError, InvalidName, NewerVersion
from kvwal.log.submission import Submission, size_of
from kvwal.log.waiter import Waiter
from kvwal.structures.facade import Structures
from kvwal.structures.queue.options import NO_OPTIONS, QueueOptions
from kvwal.structures.queue.positions import OPTIONS_KEY, options_class
from tests.support.disk.faults import FakeClock, open_store


@pytest.fixture
def business(tmp_path: Path) -> Iterator[Structures]:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        yield store.business("work")


def test_options_are_stored_and_changed_one_by_one(tmp_path: Path) -> None:
    every = QueueOptions(7, 1000, 1.5, 3, "dead", 60.0)
    with kvwal.open(tmp_path) as store:
        q = store.business("work").queue("todo")
        assert q.options() == QueueOptions()
        assert q.set_options() == QueueOptions()
        assert q.set_options(capacity=7) == QueueOptions(capacity=7)
        q.set_options(
            capacity_bytes=1000, redelivery_delay=timedelta(seconds=1.5), max_deliveries=3, dead_letters="dead", ttl=60
        )
        assert q.options() == every
        assert (len(q), list(q.browse()), q._state.room) == (0, [], (0, 0))
        store.checkpoint()
        store.archive()
    with kvwal.open(tmp_path, read_only=True) as files:
        q = files.business("work").queue("todo")
        assert q.options() == every
        with pytest.raises(ConfigError, match="read_only"):
            q.set_options(capacity=1)
    kvwal.restore(tmp_path / "_archive", tmp_path / "again", node="other")
    for root in (tmp_path, tmp_path / "again"):
        with kvwal.open(root) as store:
            q = store.business("work").queue("todo")
            assert q.options() == every
            assert store.business("work").queue().options() == QueueOptions()
            q.set_options(ttl=None, max_deliveries=None, dead_letters=None)
            assert q.options() == QueueOptions(7, 1000, 1.5)
            q.set_options(capacity=None, capacity_bytes=None, redelivery_delay=None)
            assert q._state.options is NO_OPTIONS
            assert q._state.holds_nothing()


def test_a_change_that_changes_nothing_writes_nothing(business: Structures) -> None:
    q = business.queue()
    q.set_options(capacity=7)
    before = business._business.log.writer.applied  # type: ignore[attr-defined]
    assert q.set_options(capacity=7, ttl=None) == QueueOptions(capacity=7)
    assert business._business.log.writer.applied == before  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"capacity": 0}, "capacity=0 must be a whole number above 0"),
        ({"capacity": True}, "capacity=True must be a whole number"),
        ({"capacity": 1 << 60}, "capacity=.* must be a whole number"),
        ({"capacity_bytes": 1.5}, "capacity_bytes=1.5 must be a whole number"),
        ({"capacity_bytes": "5 MiB"}, "capacity_bytes='5 MiB' must be a whole number"),
        ({"redelivery_delay": 0}, "redelivery_delay=0 must be a number of seconds above 0"),
        ({"redelivery_delay": "1s"}, "redelivery_delay='1s' must be a number of seconds"),
        ({"ttl": float("nan")}, "ttl=nan must be a number of seconds"),
        ({"max_deliveries": -1, "dead_letters": "dead"}, "max_deliveries=-1 must be a whole number"),
        ({"max_deliveries": 3}, "max_deliveries=3 needs dead_letters, too"),
        ({"dead_letters": "dead"}, "dead_letters='dead' needs max_deliveries, too"),
        ({"dead_letters": "todo", "max_deliveries": 3}, "dead_letters='todo' is the queue itself"),
        ({"dead_letters": 7, "max_deliveries": 3}, "dead_letters=7 must be the name of a queue"),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_is_changed(business: Structures, given: Any, says: str) -> None:
    q = business.queue("todo")
    q.set_options(capacity=5)
    with pytest.raises(ConfigError, match=says):
        q.set_options(**given)
    assert q.options() == QueueOptions(capacity=5)


def test_names_of_dead_letters_are_those_of_queues(business: Structures) -> None:
    q = business.queue("todo")
    with pytest.raises(InvalidName):
        q.set_options(dead_letters="../x", max_deliveries=1)
    assert q.set_options(dead_letters="", max_deliveries=1).dead_letters == ""  # the business's own queue
    with pytest.raises(ConfigError, match="is the queue itself"):
        business.queue().set_options(dead_letters="", max_deliveries=1)
    with pytest.raises(TypeError, match="capactiy"):
        q.set_options(capactiy=5)  # type: ignore[call-arg]


def test_items_without_a_time_to_live_get_that_of_the_queue(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock, archive=None) as store:
        business = store.business("work")
        q = business.queue()
        q.set_options(ttl=10)
        assert q.put_many(["a", "b"]) > 0
        q.put("own", ttl=100)
        with business.transaction() as t:
            t.queue().put("of a block")
        q.put("delayed", delay=5)
        clock.ms += 10_000
        assert list(q.browse()) == ["own"]
        q.set_options(ttl=None)
        q.put("for ever")
        clock.ms += 1_000_000
        assert list(q.browse()) == ["for ever"]


def write_options(business: Structures, value: bytes) -> None:
    """Options as another version may write them."""
    entries = [Entry(OPTIONS_KEY, options_class("queue"), value, "json", False, 0)]
    waiter = Waiter()
    business._business.submit(Submission(entries, size_of(entries), waiter, lambda group: entries), waits=True)
    assert waiter.result()


def test_options_of_a_newer_version_stay_when_others_are_changed(business: Structures) -> None:
    q = business.queue()
    write_options(business, b'{"capacity":5,"colour":"red"}')
    assert q.options() == QueueOptions(capacity=5)
    q.set_options(capacity=1)
    entry = business._business.state_of("queue").lookup(options_class("queue"), OPTIONS_KEY)
    assert msgspec.json.decode(entry.value) == {"capacity": 1, "colour": "red"}
    q.put("a")
    with pytest.raises(queue.Full):
        q.put("b", timeout=0)


@pytest.mark.parametrize("value", [b'{"capacity":{"items":5}}', b"[]", b"\xff"])
def test_options_that_cannot_be_read_refuse_puts_and_no_takes(business: Structures, value: bytes) -> None:
    q = business.queue()
    q.put("a")
    write_options(business, value)
    for refused in (q.options, lambda: q.put("b")):
        with pytest.raises(NewerVersion, match="work/queue: its stored options are of a form that this version"):
            refused()
    assert q.take() == "a"
    q.set_options(capacity=5)
    q.put("b")
    assert q.options() == QueueOptions(capacity=5)


def test_sql_shows_the_items_and_their_history_alone(tmp_path: Path) -> None:
    with kvwal.open(tmp_path) as store:
        q = store.business("work").queue("todo")
        q.set_options(redelivery_delay=3600)
        q.put("a")
        q.put("b", delay=60)
        assert store.sql('SELECT value FROM "work/queue/todo" ORDER BY key').column(0).to_pylist() == ['"a"', '"b"']
        classes = store.sql('SELECT DISTINCT key_class FROM "work/queue/todo_history" ORDER BY 1').column(0).to_pylist()
        assert classes == ["queue/todo:int"]
