"""Entries that expire, the sweeper, and clocks that jump: on a clock that the test moves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvwal.config import Settings
from kvwal.errors import ClockSkew, CodecError
from kvwal.store import WritableStore
from kvwal.structures.map import Map
from tests.support.faults import START_MS, FakeClock, open_store


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[WritableStore]:
    with open_store(tmp_path, clock=clock, flush="os") as opened:
        yield opened


@pytest.fixture
def jobs(store: WritableStore) -> Map:
    return store.map("jobs")


def sweep(store: WritableStore) -> None:
    """What the store does every second."""
    store._thread.run(store._engine.businesses["jobs"].keeper.tick())


def test_an_expired_key_is_absent_from_every_answer(jobs: Map, clock: FakeClock) -> None:
    jobs.put("a", 1, ttl=5)
    jobs.put_many({"b": 1})
    with jobs.transaction() as t:
        t.put("ab", 1, ttl=5)
    entry = jobs.entry("a")
    assert entry is not None
    assert entry.expires == START_MS + 5000
    clock.ms += 4999
    assert jobs["a"] == 1
    assert len(jobs) == 3
    clock.ms += 1
    assert "a" not in jobs
    assert jobs.get("a") is None
    assert jobs.entry("a") is None
    assert list(jobs) == ["b"]
    assert list(jobs.scan("a")) == []
    assert len(jobs) == 1
    assert jobs.pop("a", "gone") == "gone"
    assert not jobs.replace("a", 1, 2)
    assert not jobs.remove("a", 1)
    with pytest.raises(KeyError):
        del jobs["a"]
    assert jobs.put_if_absent("a", 2)
    assert jobs["a"] == 2


def test_a_put_anew_has_its_own_end_or_none(jobs: Map, clock: FakeClock) -> None:
    jobs.put("a", 1, ttl=5)
    jobs.put("b", 1, ttl=5)
    jobs["a"] = 2
    jobs.put("b", 2, ttl=10)
    clock.ms += 5000
    assert dict(jobs) == {"a": 2, "b": 2}
    clock.ms += 5000
    assert dict(jobs) == {"a": 2}


@pytest.mark.parametrize("ttl", [0, -1, math.nan, math.inf, 1e300, 10**30, "5"], ids=repr)
def test_what_is_no_ttl_is_refused_and_hurts_nobody(jobs: Map, ttl: Any) -> None:
    for put in (jobs.put, jobs.submit, jobs.put_if_absent):
        with pytest.raises(CodecError, match="ttl="):
            put("a", 1, ttl=ttl)
    jobs["b"] = 1
    assert dict(jobs) == {"b": 1}


def test_the_least_ttl_is_a_millisecond_and_the_most_a_long_time(jobs: Map, clock: FakeClock) -> None:
    jobs.put("a", 1, ttl=1e-9)
    jobs.put("b", 1, ttl=900 * 365 * 86400)
    assert jobs["a"] == 1
    clock.ms += 1
    assert dict(jobs) == {"b": 1}


def test_the_sweeper_appends_real_deletes(store: WritableStore, jobs: Map, clock: FakeClock, tmp_path: Path) -> None:
    jobs.put("a", 1, ttl=5)
    jobs.put("kept", 1, ttl=5000)
    clock.ms += 5000
    sweep(store)
    jobs["b"] = 1
    deleted, put = jobs.history("a")
    assert (deleted.deleted, put.deleted) == (True, False)
    assert deleted.when.timestamp() * 1000 == clock.ms
    clock.ms -= 5000
    sweep(store)
    jobs["b"] = 2
    assert len(jobs.history("a")) == 2
    assert dict(jobs) == {"b": 2, "kept": 1}


def test_the_sweeper_takes_nothing_that_was_put_anew(store: WritableStore, jobs: Map, clock: FakeClock) -> None:
    """The put and the sweep's delete wait in the ring together, whichever came first."""
    for _ in range(20):
        jobs.put("a", 1, ttl=1)
        clock.ms += 1000
        waiting = jobs.submit("a", 2)
        sweep(store)
        waiting.result()
        jobs["after"] = 1
        assert jobs["a"] == 2
        assert not jobs.history("a")[0].deleted


def test_expiry_survives_a_reopen_and_the_past_knows_it(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        first = store.map("jobs").put("a", 1, ttl=5)
        clock.ms += 1
        second = store.map("jobs").put("b", 1)
    clock.ms += 4000
    with open_store(tmp_path, clock=clock) as store:
        jobs = store.map("jobs")
        assert dict(jobs) == {"a": 1, "b": 1}
        clock.ms += 1000
        last = jobs.put("b", 2)
        assert dict(jobs) == {"b": 2}
        assert [dict(jobs.at(moment)) for moment in (first, second, last)] == [{"a": 1}, {"a": 1, "b": 1}, {"b": 2}]


def test_a_wall_clock_that_steps_back_does_not_matter(jobs: Map, clock: FakeClock) -> None:
    stamps = [jobs.put("a", 0)]
    jobs.put("short", 1, ttl=5)
    for number, step in enumerate((-5000, -1, -(10**9), 4999, 2000), 1):
        clock.ms += step
        stamps.append(jobs.put("a", number))
    assert stamps == sorted(set(stamps))
    assert jobs["a"] == 5
    assert [entry.timestamp for entry in jobs.history("a")] == stamps[::-1]
    assert jobs["short"] == 1, "the present is the clock's last stamp, not the wall that stepped back"


def test_a_log_from_the_future_is_refused_unless_it_is_accepted(tmp_path: Path) -> None:
    clock = FakeClock(START_MS + 60_000)
    with open_store(tmp_path, clock=clock) as store:
        last = store.map("jobs").put("a", 1)
    folder = tmp_path / "default" / "local" / "jobs" / "local"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    clock.ms = START_MS
    with open_store(tmp_path, clock=clock) as store, pytest.raises(ClockSkew, match=r"60\.0 s ahead") as skew:
        store.map("jobs")
    assert "accept_clock" in str(skew.value)
    assert "2026-01-01 00:01:00.000Z" in str(skew.value)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with open_store(tmp_path, clock=clock, accept_clock=True) as store:
        assert store.map("jobs").put("a", 2) == last + 1
    with open_store(tmp_path, clock=clock, settings=Settings(max_skew_seconds=60)) as store:
        assert store.map("jobs")["a"] == 2


def test_a_little_skew_is_ordinary(tmp_path: Path) -> None:
    clock = FakeClock(START_MS + 10_000)
    with open_store(tmp_path, clock=clock) as store:
        last = store.map("jobs").put("a", 1)
    clock.ms = START_MS
    with open_store(tmp_path, clock=clock) as store:
        assert store.map("jobs").put("a", 2) == last + 1
