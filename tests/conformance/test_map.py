"""The map is a dict to its callers: what it answers, who wins a race, and what cannot change it."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, MutableMapping
from concurrent.futures import wait
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from kvwal.errors import CodecError, ConfigError, KvwalError, TooLarge
from kvwal.structures.map.map import Map
from tests.support.threads import THREADS, at_once

ADDITIONS = 5


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all through; 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)


def test_it_behaves_as_a_dict(jobs: Map) -> None:
    assert isinstance(jobs, MutableMapping)
    model: dict[Any, Any] = {}
    for target in (jobs, model):
        target["a"] = 1
        target[1] = {"b": [2]}
        target[None] = False
        target["a"] = 2
        del target[1]
        target["x"] = 1
        target["y"] = 3
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


ABSENT: list[Any] = [(1, [2]), [1], {"a": 1}, math.nan, object(), 10**400, "\ud800"]


@pytest.mark.parametrize("key", ABSENT, ids=lambda key: type(key).__name__)
def test_a_key_that_cannot_be_one_is_absent(jobs: Map, key: Any) -> None:
    jobs["a"] = 1
    assert key not in jobs
    assert key not in jobs.keys()  # noqa: SIM118  the view is what is asked
    assert (key, 1) not in jobs.items()
    assert jobs.get(key) is jobs.entry(key) is jobs.pop(key, None) is None
    assert jobs.get(key, 7) == jobs.pop(key, 7) == 7
    assert jobs.history(key) == []
    for ask in (jobs.__getitem__, jobs.__delitem__, jobs.pop):
        with pytest.raises(KeyError):
            ask(key)
    writes: list[Callable[[], Any]] = [
        lambda: jobs.put(key, 1), lambda: jobs.delete(key), lambda: jobs.setdefault(key, 1), lambda: jobs.put_many([(key, 1)]),
        lambda: jobs.put_if_absent(key, 1), lambda: jobs.replace(key, 1, 2), lambda: jobs.remove(key, 1),
    ]  # fmt: skip
    for write in writes:
        with pytest.raises(CodecError):
            write()
    assert dict(jobs) == {"a": 1}


def test_it_is_a_part_of_other_mappings(jobs: Map) -> None:
    jobs["a"] = 1
    chained = ChainMap({(1, 2): "pair"}, jobs, {"b": 2})
    assert [chained[(1, 2)], chained["a"], chained["b"]] == ["pair", 1, 2]
    assert (3, 4) not in chained
    under = ChainMap(jobs, {(1, 2): "pair"})
    assert under[(1, 2)] == "pair"
    assert jobs != {(1, 2): 3}


def test_popitem_gives_every_item_once_in_key_order(jobs: Map) -> None:
    jobs.put_many([(number, -number) for number in range(30)])
    assert [jobs.popitem() for _ in range(30)] == [(number, -number) for number in range(30)]
    assert len(jobs) == 0


def test_many_that_pop_items_get_each_once(jobs: Map) -> None:
    jobs.put_many([(number, -number) for number in range(THREADS * ADDITIONS)])
    taken = at_once(lambda number: [jobs.popitem() for _ in range(ADDITIONS)])
    assert sorted(item for items in taken for item in items) == [(n, -n) for n in range(THREADS * ADDITIONS)]


NOW = 1767225600  # the first of January 2026, in Unix seconds


@pytest.mark.parametrize("moment", [NOW, NOW * 1000, NOW * 10**6, NOW * 10**9, 0, -1, 2**63, 2**64, 10**30])
def test_a_time_of_another_clock_is_refused(jobs: Map, moment: int) -> None:
    with pytest.raises(ConfigError, match="no timestamp of kvwal"):
        jobs.at(moment)


@pytest.mark.parametrize("moment", [2**63 - 1, datetime(9999, 12, 31, tzinfo=UTC), date(9999, 12, 30)])
def test_a_time_beyond_the_last_timestamp_is_now(jobs: Map, moment: int | date) -> None:
    jobs["a"] = 1
    assert dict(jobs.at(moment)) == {"a": 1}


@pytest.mark.parametrize("moment", [float(NOW), "2026-01-01", None, True])
def test_what_is_no_moment_is_refused(jobs: Map, moment: Any) -> None:
    with pytest.raises(TypeError, match="no moment") as raised:
        jobs.at(moment)
    assert isinstance(raised.value, KvwalError)


def test_popitem_empties_it(jobs: Map) -> None:
    jobs["a"] = 1
    jobs["b"] = 2
    assert {jobs.popitem(), jobs.popitem()} == {("a", 1), ("b", 2)}
    with pytest.raises(KeyError):
        jobs.popitem()


VALUES: list[Any] = [
    "", "text", "ünï 🐘 \x00", 0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1,
    2**1015, -(2**1015), 255, 256, -256, 0.0, -0.0, 1.5, float("inf"), float("-inf"), 5e-324, True, False, None,
    b"", b"\x00\xff", {}, [], {"a": [1, 2.5, -0.0, None, True, "x", {"b": 2**64 - 1}]}, [{"": ""}],
]  # fmt: skip


def test_values_come_back_equal_and_of_the_same_type(jobs: Map) -> None:
    wait([jobs.submit(number, value) for number, value in enumerate(VALUES)])
    assert [value for number, value in enumerate(VALUES) if not same(jobs[number], value)] == []
    found = dict(jobs.items())
    assert [value for number, value in enumerate(VALUES) if not same(found[number], value)] == []


def test_keys_of_other_types_are_other_keys(jobs: Map) -> None:
    keys: list[Any] = ["1", b"1", 1, 1.0, True, None, "", b"", 0, 0.0, False, "true", 2**40, 2**80, -(2**80)]
    for number, key in enumerate(keys):
        jobs[key] = number
    assert [jobs[key] for key in keys] == list(range(len(keys)))
    assert len(jobs) == len(keys)
    jobs[-0.0] = "the same key as 0.0"
    assert jobs[0.0] == "the same key as 0.0"
    assert len(jobs) == len(keys)
    assert {(type(key), key) for key in jobs} == {(type(key), key) for key in keys}


def test_what_was_given_or_got_cannot_change_what_is_stored(jobs: Map) -> None:
    given: dict[str, Any] = {"tags": ["a"]}
    jobs["a"] = given
    given["tags"].append("b")
    assert jobs["a"] == {"tags": ["a"]}
    jobs["a"]["tags"].clear()
    next(iter(jobs.values()))["tags"].clear()
    assert dict(jobs.items())["a"] == jobs.get("a") == {"tags": ["a"]}


def test_an_entry_has_the_bytes_and_cannot_be_changed(jobs: Map) -> None:
    jobs["a"] = 1
    entry = jobs.entry("a")
    assert entry is not None
    assert (entry.key, entry.key_class, entry.value, entry.value_class) == (b"a", "str", b"\x81\x01", "int")
    assert not entry.deleted
    with pytest.raises(AttributeError):
        entry.value = b"x"  # type: ignore[misc]
    assert jobs.entry("b") is None
    assert [found.key for found in jobs.entries("a")] == [b"a"]


def test_a_change_says_the_timestamp_that_its_history_has(jobs: Map) -> None:
    told = [jobs.put("a", 1), jobs.put("a", 2, ttl=3600), jobs.submit("a", 3).result(), jobs.delete("a")]
    assert [entry.timestamp for entry in reversed(jobs.history("a"))] == told
    assert [jobs.at(timestamp).get("a") for timestamp in told] == [1, 2, 3, None]


def test_the_timestamps_of_a_key_increase(jobs: Map) -> None:
    stamps = [jobs.put("a", 1), jobs.put("a", 1, sync=True), jobs.delete("a"), jobs.delete("a")]
    stamps.append(jobs.submit("a", 1).result())
    assert stamps == sorted(set(stamps))
    assert all(type(stamp) is int for stamp in stamps)


def test_exactly_one_put_if_absent_wins(jobs: Map) -> None:
    for key in range(5):
        won = at_once(lambda name, key=key: jobs.put_if_absent(key, name))
        assert won.count(True) == 1
        assert jobs[key] == won.index(True)


def test_replace_as_a_counter_adds_up(jobs: Map) -> None:
    jobs["count"] = 0

    def add(_: int) -> None:
        for _ in range(ADDITIONS):
            while not jobs.replace("count", seen := jobs["count"], seen + 1):
                pass

    at_once(add)
    assert jobs["count"] == ADDITIONS * THREADS


def test_exactly_one_remove_or_pop_or_del_ends_a_value(jobs: Map) -> None:
    def delete(_: int) -> bool:
        try:
            del jobs["b"]
        except KeyError:
            return False
        return True

    for key in "abc":
        jobs[key] = 1
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
    assert jobs["a"] == 1


def test_what_cannot_come_back_is_refused_and_nothing_changes(jobs: Map) -> None:
    jobs["a"] = 1
    refused: list[tuple[Any, Any]] = [
        ("a", {1: 2}), ("a", (1,)), ("a", {1}), (frozenset("a"), 1), (["a"], 1), (float("nan"), 1), ("a", object()), ("a", 1j),
        ("a", 2**1016), ("a", "\ud800"),
    ]  # fmt: skip
    for key, value in refused:
        with pytest.raises(CodecError):
            jobs[key] = value
        with pytest.raises(CodecError):
            jobs.put_if_absent(key, value)
        with pytest.raises(CodecError):
            jobs.submit(key, value)
    for ttl in (0, -1, float("nan"), float("inf"), "1"):
        with pytest.raises(CodecError, match="ttl"):
            jobs.put("a", 2, ttl)  # type: ignore[arg-type]
    assert dict(jobs) == {"a": 1}


def test_what_is_too_large_is_refused_and_nothing_is_written(jobs: Map) -> None:
    with pytest.raises(TooLarge, match="nothing was written"):
        jobs["k" * (5 << 20)] = b"x"
    with pytest.raises(TooLarge):
        jobs.put_if_absent(b"k" * (5 << 20), b"x")
    assert not len(jobs)
    large = b"x" * ((5 << 20) - 100)
    jobs["a"] = large
    assert jobs["a"] == large


def test_after_its_end_an_entry_is_absent(jobs: Map) -> None:
    jobs.put("soon", 1, ttl=3)
    assert jobs.put_if_absent("soon too", 1, ttl=3)
    jobs.put("later", 1, ttl=1000)
    jobs.put("kept", 1, ttl=10)
    jobs["kept"] = 2
    jobs.put("replaced", 1, ttl=10)
    assert jobs.replace("replaced", 1, 2)
    assert {entry.key for entry in jobs.entries() if entry.expires} <= {b"soon", b"soon too", b"later"}
    while "soon" in jobs or "soon too" in jobs:
        pass
    assert jobs.get("soon") is None
    assert dict(jobs) == {"later": 1, "kept": 2, "replaced": 2}, "a put and a replace without an end have none"
    assert len(jobs) == 3
    assert jobs.put_if_absent("soon", 2)


def test_a_scan_is_in_key_order(jobs: Map) -> None:
    for key in ("b", "a", "ß", "ab", "", "a\U0010ffff", 2, -1, 10, b"\xff\xff", b"\xff", 0.5):
        jobs[key] = str(key)
    texts = ["", "a", "ab", "a\U0010ffff", "b", "ß"]
    assert [key for key, _ in jobs.scan()] == list(jobs) == [b"\xff", b"\xff\xff", 0.5, -1, 2, 10, *texts]
    assert list(jobs.values()) == [str(key) for key in jobs]
    assert [entry.value.decode() for entry in jobs.entries()] == [value for _, value in jobs.scan()]
    assert [key for key, _ in jobs.scan("a")] == ["a", "ab", "a\U0010ffff"]
    assert [key for key, _ in jobs.scan("")] == texts
    assert list(jobs.scan(b"\xff")) == [(b"\xff", str(b"\xff")), (b"\xff\xff", str(b"\xff\xff"))]
    assert list(jobs.scan("x")) == []
    for prefix in (1, 1.5, True, []):
        with pytest.raises(CodecError, match="a prefix is str, bytes or a tuple"):
            list(jobs.scan(prefix))  # type: ignore[arg-type]


def test_an_iterator_stays_as_it_was_made(jobs: Map) -> None:
    for key in ("a", "ab", "b"):
        jobs[key] = "before"
    scan = jobs.scan()
    names = iter(jobs)
    assert next(scan) == ("a", "before")
    jobs["ac"] = "after"
    jobs["b"] = "after"
    del jobs["ab"]
    assert list(scan) == [("ab", "before"), ("b", "before")]
    assert list(names) == ["a", "ab", "b"]


@pytest.mark.parametrize("ttl", [3_600, 3_600.0, timedelta(hours=1)], ids=repr)
def test_a_time_to_live_is_seconds_or_a_timedelta(jobs: Map, ttl: float | timedelta) -> None:
    """In every write that takes one."""
    jobs.put("put", 1, ttl)
    jobs.submit("submit", 1, ttl).result()
    jobs.put_if_absent("put_if_absent", 1, ttl)
    jobs.put_many({"many": 1, "more": 2}, ttl=ttl)
    jobs.put_many([("one", 1)], ttl)
    with jobs.transaction() as t:
        t.put("transaction", 1, ttl)
        t.put("kept", 1)
    lives = {key: lifetime(jobs, key) for key in jobs}
    assert lives.pop("kept") is None
    assert lives == pytest.approx(dict.fromkeys(lives, 3_600), abs=60)
    assert lives.keys() == {"put", "submit", "put_if_absent", "many", "more", "one", "transaction"}


def lifetime(jobs: Map, key: str) -> float | None:
    """The seconds from the put of a key to its expiry; None if it does not expire."""
    entry = jobs.history(key)[0]
    return (entry.expires - (entry.timestamp >> 16)) / 1000 if entry.expires else None


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(-1), timedelta.max, 0, True, "1h"], ids=repr)
def test_a_time_to_live_is_above_0(jobs: Map, ttl: Any) -> None:
    for write in (partial(jobs.put, "a", 1), partial(jobs.put_many, {"a": 1}), partial(jobs.put_if_absent, "a", 1)):
        with pytest.raises(CodecError, match="must be a number of seconds above 0"):
            write(ttl=ttl)
    assert dict(jobs) == {}
