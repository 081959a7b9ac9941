"""Transactions with conditions: of several that depend on the same keys one wins, whole, and the others change nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import kvwal
from kvwal.structures.map.map import Map
from tests.support.threads import THREADS, at_once

ADDITIONS = 5


def test_all_is_written_or_nothing(jobs: Map) -> None:
    assert jobs.commit_if({"lease": kvwal.ABSENT}, {"lease": {"token": 1}, "a": 1})
    assert not jobs.commit_if({"lease": kvwal.ABSENT}, {"lease": {"token": 9}, "a": 9})
    assert not jobs.commit_if({"lease": {"token": 2}}, {"a": 9}, ["lease"])
    assert not jobs.commit_if({"lease": {"token": 1}, "b": 1}, {"a": 9})
    assert dict(jobs.items()) == {"lease": {"token": 1}, "a": 1}
    assert jobs.commit_if({"lease": {"token": 1}, "b": kvwal.ABSENT, "a": 1}, {"b": b"new", 7: "seven"}, ["a", "never"])
    assert dict(jobs.items()) == {"lease": {"token": 1}, "b": b"new", 7: "seven"}
    assert jobs.commit_if({7: "seven"}, deletes=[7])
    assert 7 not in jobs


def test_a_condition_is_on_value_and_type(jobs: Map) -> None:
    jobs.put_many({"one": 1, "text": "1", "object": {"b": 1, "a": [2]}, "zero": 0.0, "none": None})
    for wrong in (
        {"one": "1"},
        {"one": 1.0},
        {"one": True},
        {"object": {"a": [2]}},
        {"none": kvwal.ABSENT},
        {"x": None},
    ):
        assert not jobs.commit_if(wrong, {"written": True}), wrong
    right: dict[str, Any] = {"one": 1, "text": "1", "object": {"a": [2], "b": 1}, "zero": -0.0, "none": None}
    assert jobs.commit_if(right, {"written": True})


@pytest.mark.long
def test_of_many_at_once_each_sees_the_one_before_it(jobs: Map) -> None:
    jobs.put_many({"guard": {"n": 0}, "sum": 0})

    def add(name: int) -> None:
        for number in range(ADDITIONS):
            added = False
            while not added:
                guard, found = jobs["guard"], jobs["sum"]
                change = {"guard": {"n": guard["n"] + 1}, "sum": found + 1, f"{name}-{number}": 1}
                added = jobs.commit_if({"guard": guard}, change)

    at_once(add)
    total = THREADS * ADDITIONS
    assert jobs["guard"] == {"n": total}
    assert len(jobs) == total + 2


def test_what_reads_keys_under_a_guard_that_stays_reads_what_was_before(jobs: Map) -> None:
    """The guard keeps its value, and a second condition is on the key that changes."""
    jobs.put_many({"lease": "mine", "sum": 0})

    def add(name: int) -> None:
        for _ in range(ADDITIONS):
            while not jobs.commit_if({"lease": "mine", "sum": (found := jobs["sum"])}, {"sum": found + 1}):
                pass

    at_once(add)
    assert jobs["sum"] == THREADS * ADDITIONS


def test_without_a_condition_or_a_change_it_is_refused(jobs: Map) -> None:
    with pytest.raises(kvwal.ConfigError, match="nothing was written"):
        jobs.commit_if({}, {"a": 1})
    with pytest.raises(kvwal.ConfigError, match="nothing was written"):
        jobs.commit_if({"a": 1})
    with pytest.raises(kvwal.CodecError):
        jobs.commit_if({"a": object()}, {"a": 1})
    with pytest.raises(kvwal.TooLarge):
        jobs.commit_if({"a": kvwal.ABSENT}, {"a" * (6 << 20): b"x"})
    assert not len(jobs)


def test_tasks_commit_under_conditions_too(opening: Any) -> None:
    async def run() -> None:
        async with opening() as store:
            jobs = store.map("conditional-tasks")
            won = await asyncio.gather(
                *(jobs.commit_if({"first": kvwal.ABSENT}, {"first": n, f"of-{n}": n}) for n in range(20))
            )
            assert won.count(True) == 1
            assert await jobs.count() == 2
            assert await jobs.get("first") == won.index(True)

    asyncio.run(run())


@pytest.mark.long
def test_who_reads_the_new_guard_reads_all_else_that_came_with_it(jobs: Map) -> None:
    """Else a total that is read after the guard, and put back under the guard's value, would lose the change before it."""
    keys = [f"{number:02}" for number in range(40)]
    jobs.put_many({"guard": 0, **dict.fromkeys(keys, 0)})
    seen: list[int] = []

    def work(reads: int) -> None:
        if not reads:
            for number in range(60):
                assert jobs.commit_if({"guard": number}, {"guard": number + 1, **dict.fromkeys(keys, number + 1)})
            return
        while (guard := jobs["guard"]) < 60:
            seen.append(min(jobs[key] for key in keys[::9]) - guard)

    at_once(work, 2)
    assert seen
    assert min(seen) >= 0
