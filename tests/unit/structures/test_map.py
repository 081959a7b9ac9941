"""The map is a dict to its callers: what it answers, who wins a race, what a transaction is, and what cannot change it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, MutableMapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import CodecError, TooLarge
from kvwal.structures.map.map import Map
from tests.support import threads
from tests.support.disk.faults import FakeDisk, open_store

THREADS = 16
at_once = partial(threads.at_once, threads=THREADS)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Map]:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        yield store.map("jobs")


def test_it_behaves_as_a_dict(jobs: Map) -> None:
    assert isinstance(jobs, MutableMapping)
    model: dict[Any, Any] = {}
    for target in (jobs, model):
        target["a"] = 1
        target[1] = {"b": [2]}
        target[None] = False
        target["a"] = 2
        del target[1]
        target.update({"x": 1, "y": 2}, z=3)
        target.update([("y", 3)])
        assert target.setdefault("a", 9) == 2
        assert target.setdefault("new") is None
        assert target.pop("x") == 1
        assert target.pop("x", 5) == 5
    assert dict(jobs) == model
    assert jobs == model
    assert len(jobs) == len(model)
    assert set(jobs) == set(jobs.keys()) == set(model)
    assert sorted(jobs.items(), key=repr) == sorted(model.items(), key=repr)
    assert len(jobs.values()) == len(model)
    assert "a" in jobs
    assert 1 not in jobs
    assert jobs.get("no") is None
    assert jobs.get("no", 7) == 7
    jobs.clear()
    assert dict(jobs) == {}
    assert list(jobs.items()) == list(jobs.values()) == []


@pytest.mark.parametrize(
    "ask", [lambda jobs: jobs["a"], lambda jobs: jobs.pop("a"), lambda jobs: jobs.__delitem__("a")]
)
def test_an_absent_key_is_a_key_error(jobs: Map, ask: Callable[[Map], Any]) -> None:
    with pytest.raises(KeyError, match="'a'"):
        ask(jobs)


def test_popitem_empties_it(jobs: Map) -> None:
    jobs.update(a=1, b=2)
    assert {jobs.popitem(), jobs.popitem()} == {("a", 1), ("b", 2)}
    with pytest.raises(KeyError):
        jobs.popitem()


def test_keys_of_other_types_are_other_keys(jobs: Map) -> None:
    keys: list[Any] = ["1", b"1", 1, 1.0, True, None, "", b"", 0]
    for number, key in enumerate(keys):
        jobs[key] = number
    assert [jobs[key] for key in keys] == list(range(len(keys)))
    assert len(jobs) == len(keys)


def test_what_was_given_or_got_cannot_change_what_is_stored(jobs: Map) -> None:
    given: dict[str, Any] = {"tags": ["a"]}
    jobs["a"] = given
    jobs.put_many({"b": given})
    given["tags"].append("b")
    assert jobs["a"] == jobs["b"] == {"tags": ["a"]}
    got = jobs["a"]
    got["tags"].clear()
    next(iter(jobs.values()))["tags"].clear()
    assert dict(jobs.items())["a"] == jobs.get("a") == {"tags": ["a"]}
    entry = jobs.entry("a")
    assert entry is not None
    with pytest.raises(AttributeError):
        entry.value = b"x"  # type: ignore[misc]


def test_a_change_says_its_timestamp_and_they_increase(jobs: Map) -> None:
    stamps = [
        jobs.put("a", 1),
        jobs.put_many({"b": 1, "c": 2}),
        jobs.delete("a"),
        jobs.delete("a"),
        jobs.submit("d", 1).result(),
    ]
    assert stamps == sorted(set(stamps))
    assert (
        [entry.timestamp for entry in jobs.entries("b")]
        == [entry.timestamp for entry in jobs.entries("c")]
        == [stamps[1]]
    )


def test_exactly_one_put_if_absent_wins(jobs: Map) -> None:
    for key in range(10):
        won = at_once(lambda name, key=key: jobs.put_if_absent(key, name))
        assert won.count(True) == 1
        assert jobs[key] == won.index(True)


def test_replace_as_a_counter_adds_up(jobs: Map) -> None:
    jobs["count"] = 0

    def add(_: int) -> None:
        for _ in range(10):
            while not jobs.replace("count", seen := jobs["count"], seen + 1):
                pass

    at_once(add)
    assert jobs["count"] == 10 * THREADS


def test_exactly_one_remove_or_pop_or_del_ends_a_value(jobs: Map) -> None:
    def delete(_: int) -> bool:
        try:
            del jobs["b"]
        except KeyError:
            return False
        return True

    jobs.update(a=1, b=1, c=1)
    assert at_once(lambda _: jobs.remove("a", 1)).count(True) == 1
    assert at_once(delete).count(True) == 1
    assert at_once(lambda _: jobs.pop("c", None)).count(1) == 1
    assert not len(jobs)


def test_setdefault_gives_everybody_the_same(jobs: Map) -> None:
    assert len(set(at_once(lambda name: jobs.setdefault("a", name)))) == 1


def test_conditions_compare_value_and_type(jobs: Map) -> None:
    jobs["a"] = 1
    for other in (1.0, True, "1", None, 2):
        assert not jobs.replace("a", other, 9)
        assert not jobs.remove("a", other)
    assert jobs.replace("a", 1, {"x": 1, "y": 2.0})
    assert jobs.replace("a", {"y": 2.0, "x": 1}, 0.0), "the order of a dict's keys is not its value"
    assert jobs.replace("a", -0.0, 5)
    assert not jobs.replace("absent", None, 1)
    assert not jobs.put_if_absent("a", 1)
    assert jobs.remove("a", 5)
    assert jobs.put_if_absent("a", 1)


def test_conditions_in_one_group_see_each_other(tmp_path: Path) -> None:
    """All wait in the ring while the disk is held, so one group decides them one after the other."""
    disk = HeldDisk()
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        disk.hold()
        first = jobs.submit("a", 0)
        disk.held.wait()
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.extend(at_once(lambda name: jobs.put_if_absent("b", name))))
        thread.start()
        while store.stats()["businesses"]["jobs"]["ring_slots"] < THREADS:
            pass
        groups = store.stats()["businesses"]["jobs"]["groups"]
        disk.let_go()
        thread.join()
        first.result()
        assert store.stats()["businesses"]["jobs"]["groups"] == groups + 2
        assert answers.count(True) == 1
        assert jobs["b"] == answers.index(True)


class HeldDisk(FakeDisk):
    """A disk on which a datasync waits while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.held = threading.Event()
        self._free = threading.Event()
        self._free.set()

    def hold(self) -> None:
        self._free.clear()

    def let_go(self) -> None:
        self._free.set()

    def enter(self, call: str, path: Path) -> None:
        super().enter(call, path)
        if call == "datasync" and not self._free.is_set():
            self.held.set()
            assert self._free.wait(60)


def test_nobody_sees_a_value_that_is_not_durable(tmp_path: Path) -> None:
    disk = HeldDisk()
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        disk.hold()
        waiting = jobs.submit("a", 2)
        disk.held.wait()
        assert jobs["a"] == 1
        assert len(jobs.history("a")) == 1
        assert dict(jobs.at(1 << 62)) == {"a": 1}
        assert not waiting.done()
        disk.let_go()
        assert jobs.at(waiting.result())["a"] == jobs["a"] == 2
        assert len(jobs.history("a")) == 2


def test_the_timestamp_of_a_transaction_is_that_of_its_last_changes(jobs: Map) -> None:
    with jobs.transaction() as t:
        t["a"] = 1
        del t["a"]
    [change] = jobs.history("a")
    assert change.timestamp == t.timestamp > 0


def test_a_transaction_is_whole_and_in_one(jobs: Map) -> None:
    jobs.update(a=1, b=1)
    with jobs.transaction() as t:
        t["a"] = 2
        t["c"] = 1
        t["c"] = 2
        del t["b"]
        del t["never"]
        t.put("d", 1, ttl=1000)
        assert dict(jobs) == {"a": 1, "b": 1}
    assert dict(jobs) == {"a": 2, "c": 2, "d": 1}
    entries = {entry.key: entry for entry in jobs.entries()}
    assert {entry.timestamp for entry in entries.values()} == {t.timestamp}
    assert [len(jobs.history(key)) for key in ("a", "b", "c", "never")] == [2, 2, 1, 1], (
        "a key touched twice: its last state"
    )


def test_a_transaction_that_raised_or_was_refused_writes_nothing(jobs: Map) -> None:
    def transact(value: Any) -> None:
        with jobs.transaction() as t:
            t["a"] = 1
            t["b"] = value()

    with pytest.raises(CodecError):
        transact(object)
    with pytest.raises(ZeroDivisionError):
        transact(lambda: 1 / 0)
    with pytest.raises(CodecError):
        jobs.put_many({"a": 1, "b": {1: 2}})
    with pytest.raises(CodecError):
        jobs.update({"a": 1, frozenset({1}): 2})
    with jobs.transaction() as t:
        pass
    assert t.timestamp == 0
    assert not len(jobs)


def test_submit_many_puts_and_deletes_together(jobs: Map) -> None:
    jobs["a"] = 1
    timestamp = jobs.submit_many({"b": 2}, deletes=["a"]).result()
    assert dict(jobs) == {"b": 2}
    assert jobs.history("a")[0].timestamp == timestamp


def test_readers_see_whole_transactions(jobs: Map) -> None:
    keys = [f"k{number}" for number in range(20)]
    jobs.put_many(dict.fromkeys(keys, 0))
    done = threading.Event()
    seen: list[set[Any]] = []

    def read() -> None:
        while not done.is_set():
            seen.append(set(jobs.values()))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(100):
        jobs.put_many(dict.fromkeys(keys, number))
    done.set()
    reader.join()
    assert seen
    assert all(len(values) == 1 for values in seen)


def test_a_scan_is_in_key_order_and_shows_one_moment(jobs: Map) -> None:
    for key in ("b", "a", "ß", "ab", "", "a\U0010ffff", 2, -1, 10, b"\xff\xff", b"\xff", 0.5):
        jobs[key] = str(key)
    texts = ["", "a", "ab", "a\U0010ffff", "b", "ß"]
    assert [key for key, _ in jobs.scan()] == list(jobs) == [b"\xff", b"\xff\xff", 0.5, -1, 2, 10, *texts]
    assert [key for key, _ in jobs.scan("a")] == ["a", "ab", "a\U0010ffff"]
    assert [key for key, _ in jobs.scan("")] == texts
    assert list(jobs.scan(b"\xff")) == [(b"\xff", str(b"\xff")), (b"\xff\xff", str(b"\xff\xff"))]
    assert list(jobs.scan("x")) == []
    scan = jobs.scan("a")
    next(scan)
    jobs["ac"] = 1
    del jobs["ab"]
    assert [key for key, _ in scan] == ["ab", "a\U0010ffff"]
    assert [key for key, _ in jobs.scan("a")] == ["a", "ac", "a\U0010ffff"]
    assert [entry.key for entry in jobs.entries("b")] == [b"b"]
    with pytest.raises(CodecError, match="prefix"):
        list(jobs.scan(1))  # type: ignore[arg-type]


def test_many_keys_are_cleared(jobs: Map) -> None:
    jobs.put_many(dict.fromkeys(range(12_000), b""))
    jobs.clear()
    assert not len(jobs)


def test_what_is_too_large_is_refused_and_nothing_is_written(jobs: Map) -> None:
    with pytest.raises(
        TooLarge, match=r"the value of b'kk.*' has, with its key, 5,242,9.. bytes .* nothing was written"
    ):
        jobs["k" * (5 << 20)] = b"x"
    with pytest.raises(TooLarge, match="the value of b'kk"):
        jobs.put_many({"small": b"x", "k" * (6 << 20): b"x" * (6 << 20)})
    with pytest.raises(TooLarge):
        jobs.put_if_absent("k" * (5 << 20), b"x")
    assert not len(jobs)
    jobs["k" * ((5 << 20) - 100)] = b"x"
    jobs.put_many(dict.fromkeys(range(6), b"x" * (1 << 20)))
    assert len(jobs) == 7


def test_history_and_the_past_are_every_change(jobs: Map) -> None:
    first = jobs.put("K", 1)
    second = jobs.put("K", 2)
    third = jobs.delete("K")
    last = jobs.put("K", 3)
    assert [(e.timestamp, e.deleted) for e in jobs.history("K")] == [
        (last, False), (third, True), (second, False), (first, False),
    ]  # fmt: skip
    assert [dict(jobs.at(moment)) for moment in (first - 1, first, second, third, last)] == [
        {}, {"K": 1}, {"K": 2}, {}, {"K": 3},
    ]  # fmt: skip
    assert dict(jobs.at(datetime(2020, 1, 1, tzinfo=UTC))) == {}
    assert jobs.history("other") == []


def test_a_submit_that_was_cancelled_before_it_was_taken_writes_nothing(tmp_path: Path) -> None:
    disk = HeldDisk()
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        disk.hold()
        first = jobs.submit("a", 1)
        disk.held.wait()
        second = jobs.submit("b", 1)
        assert second.cancel()
        disk.let_go()
        first.result()
        jobs["c"] = 1
        assert dict(jobs) == {"a": 1, "c": 1}


def test_a_clear_is_transactions_in_key_order(jobs: Map) -> None:
    keys = [f"{number:04}" + "k" * 1000 for number in range(3000)]
    jobs.put_many([(key, 1) for key in keys])
    jobs.clear()
    assert len(jobs) == 0
    deletes = [jobs.history(key)[0] for key in keys[::100]]
    stamps = [delete.timestamp for delete in deletes]
    assert stamps == sorted(stamps)
    assert 1 < len(set(stamps)) < 10
