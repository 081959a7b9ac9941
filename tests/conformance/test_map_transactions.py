"""Several keys as one: transactions, puts of several keys, and many submissions at once."""

from __future__ import annotations

from concurrent.futures import wait
from contextlib import suppress
from typing import Any

import pytest

from kvwal.errors import CodecError, TooLarge, TransactionClosed
from kvwal.structures.map.map import Map
from tests.support.threads import THREADS, at_once

ADDITIONS = 5


def test_submitted_puts_of_one_caller_are_all_there(jobs: Map) -> None:
    futures = [jobs.submit(number, {"n": number}) for number in range(2000)]
    wait(futures)
    told = [future.result() for future in futures]
    for number in range(0, 2000, 500):
        assert [entry.timestamp for entry in jobs.history(number)] == [told[number]]
    assert dict(jobs.items()) == {number: {"n": number} for number in range(2000)}


def test_several_keys_are_put_as_one(jobs: Map) -> None:
    before = jobs.put("a", 0)
    jobs.put("old", 0)
    assert jobs.put_many({key: {"n": index} for index, key in enumerate("abcdefghij")}) > before
    assert jobs.put_many([("a", 1), ("a", 2), (1, "int"), (None, None), (b"x", 1.5)]) > before
    jobs.update({"old": 1}, b=3)
    jobs.put_many({})
    expected: dict[Any, Any] = {key: {"n": index} for index, key in enumerate("abcdefghij")}
    expected |= {"a": 2, 1: "int", None: None, b"x": 1.5, "old": 1, "b": 3}
    assert dict(jobs.items()) == expected


def test_the_timestamp_of_several_changes_is_that_of_the_last_of_them_in_the_history(jobs: Map) -> None:
    """So `at` with it shows all of them, and a moment before it not all."""
    keys = [f"key-{number}" for number in range(30)]
    jobs.put_many(dict.fromkeys(keys, 0))
    together = jobs.put_many(dict.fromkeys(keys, 1))
    with jobs.transaction() as t:
        for key in keys[::2]:
            t[key] = 2
        del t["key-1"]
        del t["absent"]
    changed = [*keys[::2], "key-1"]
    expected = dict.fromkeys(keys[::2], 2) | dict.fromkeys(keys[3::2], 1)
    for stamp, written, found in ((together, keys, dict.fromkeys(keys, 1)), (t.timestamp, changed, expected)):
        stamps = [entry.timestamp for key in written for entry in jobs.history(key) if entry.timestamp <= stamp]
        assert max(stamps) == stamp
        assert dict(jobs.at(stamp).items()) == found
        assert dict(jobs.at(stamp - 1).items()) != found


def test_a_transaction_puts_and_deletes_at_its_end(jobs: Map) -> None:
    jobs.put_many({"a": 1, "b": 1, "c": 1})
    with jobs.transaction() as t:
        t["a"] = 2
        del t["b"]
        del t["absent"]
        t["new"] = [1]
        t["twice"] = 1
        del t["twice"]
        t.put("soon", 1, ttl=1)
        assert jobs["a"] == 1
        assert "new" not in jobs
    assert t.timestamp > 0
    while "soon" in jobs:
        pass
    assert dict(jobs.items()) == {"a": 2, "c": 1, "new": [1]}
    with pytest.raises(ZeroDivisionError), jobs.transaction() as t:
        t["a"] = 1 / 0
    with jobs.transaction():
        pass
    assert dict(jobs.items()) == {"a": 2, "c": 1, "new": [1]}


def test_a_put_of_several_takes_an_end_away(jobs: Map) -> None:
    jobs.put("kept", 1, ttl=1)
    jobs.put("ended", 1, ttl=1)
    jobs.put_many({"kept": 2, "other": 1})
    while "ended" in jobs:
        pass
    assert dict(jobs.items()) == {"kept": 2, "other": 1}


def test_several_at_once_from_many_threads(jobs: Map) -> None:
    def write(name: int) -> None:
        for number in range(ADDITIONS):
            future = jobs.submit_many(
                {f"{name}-{number}-{part}": part for part in range(20)}, [f"{name}-{number - 1}-0"]
            )
            assert future.result() > 0

    at_once(write)
    assert len(jobs) == THREADS * (ADDITIONS * 20 - (ADDITIONS - 1))


def test_several_that_are_too_large_or_have_no_codec_are_refused(jobs: Map) -> None:
    with pytest.raises(TooLarge, match="nothing was written"):
        jobs.put_many({"a": b"x", "b" * (6 << 20): b"x"})
    with pytest.raises(CodecError):
        jobs.put_many({"a": 1, "b": object()})
    assert not len(jobs)


def test_a_transaction_shows_its_own_changes_and_else_the_map(jobs: Map) -> None:
    jobs.put_many({"a": 1, "b": 2, "c": 3})
    with jobs.transaction() as t:
        t["a"] += 10
        del t["b"]
        t["new"] = None
        assert (t["a"], t.get("b", "gone"), t["new"], t["c"]) == (11, "gone", None, 3)
        assert [key in t for key in ("a", "b", "new", "c", "absent", object())] == [
            True,
            False,
            True,
            True,
            False,
            False,
        ]
        with pytest.raises(KeyError, match="b"):
            t["b"]
        t["b"] = 4
        jobs["c"] = 5
        assert (t["b"], t["c"], jobs["a"]) == (4, 5, 1)
    assert dict(jobs) == {"a": 11, "b": 4, "c": 5, "new": None}
    with pytest.raises(TransactionClosed, match="is over"):
        t["a"]
    with pytest.raises(TransactionClosed, match="was not begun"):
        jobs.transaction().get("a")


def test_a_transaction_is_used_once(jobs: Map) -> None:
    once = jobs.transaction()
    with pytest.raises(TransactionClosed, match="was not begun"):
        once["a"] = 1
    with suppress(RuntimeError), once:
        once["rolled back"] = 1
        raise RuntimeError
    with pytest.raises(TransactionClosed, match="is over"), once:
        pass
    with jobs.transaction() as committed:
        committed["a"] = 1
        with pytest.raises(TransactionClosed, match="is open"), committed:
            pass
        committed["b"] = 2
    for change in (lambda: committed.put("c", 3), lambda: committed.__delitem__("a")):
        with pytest.raises(TransactionClosed, match="is over"):
            change()
    jobs.delete("a")
    with pytest.raises(TransactionClosed), committed:
        pass
    assert dict(jobs) == {"b": 2}


@pytest.mark.long
def test_a_clear_goes_in_transactions_that_are_small_enough(jobs: Map) -> None:
    keys = [f"{number:06}" + "k" * 3000 for number in range(2000)]
    for start in range(0, len(keys), 500):
        jobs.put_many([(key, 1) for key in keys[start : start + 500]])
    jobs.clear()
    assert len(jobs) == 0
