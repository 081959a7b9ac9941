"""Entries that end, the sweep that frees their memory, clocks that step back or stand far behind."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ClockSkew, CodecError, StorageFull
from kvwal.history.reads.tail_reader import read_local
from kvwal.ports.disk import OS_DISK, Space
from kvwal.structures.map import state
from kvwal.structures.map.order import CHUNK_KEYS, KeyOrder
from kvwal_archive.layout import Place
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import START_MS, FakeClock, FakeDisk, open_aio, open_store


def logged(root: Path) -> list[tuple[bytes, bool]]:
    """The keys in the log, in order, and whether each was deleted."""
    tail = read_local(OS_DISK, root, Place("default", "local", "b", "local")).tail
    return [(entry.key, entry.deleted) for entry in tail.entries]


def test_an_entry_is_absent_from_its_end_on(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        b = store.map("b")
        b.put("a", 1, ttl=2)
        b["b"] = 2
        assert b.entries().__next__().expires == START_MS + 2000
        clock.ms += 1999
        assert (b["a"], len(b), list(b), list(b.scan("a"))) == (1, 2, ["a", "b"], [("a", 1)])
        clock.ms += 1
        assert ("a" in b, b.get("a"), b.entry("a"), len(b)) == (False, None, None, 1)
        assert list(b.items()) == list(b.scan()) == [("b", 2)]
        assert list(b.scan("a")) == []
        with pytest.raises(KeyError):
            b["a"]


def test_an_iterator_shows_its_moment_though_entries_end_and_are_swept_meanwhile(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        b = store.map("b")
        for number in range(40):
            b.put(f"k{number:02}", number, ttl=1)
            b.put(number, number, ttl=1)
        everything = dict(b)
        iterators = {"items": iter(b.items()), "scan": b.scan(), "prefix": b.scan("k"), "entries": b.entries()}
        begun = {name: [next(iterator)] for name, iterator in iterators.items()}
        clock.ms += 1000
        while b._business.memory.drop_expired(7):
            pass
        assert not b._business.state.tables["str"]
        b["k39"] = "put again"
        shown = {name: [*begun[name], *iterator] for name, iterator in iterators.items()}
        assert dict(shown["items"]) == dict(shown["scan"]) == everything
        assert shown["prefix"] == [(f"k{number:02}", number) for number in range(40)]
        assert len(shown["entries"]) == 80
        assert dict(b) == {"k39": "put again"}


def test_entries_that_are_swept_while_their_keys_are_sorted_are_in_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    build = state.build_order
    with open_store(tmp_path, clock=clock) as store:
        b = store.map("b")
        b.put_many({f"k{number:04}": number for number in range(3 * CHUNK_KEYS)})
        for number in range(0, 3 * CHUNK_KEYS, 100):
            b.put(f"k{number:04}", number, ttl=1)

        def swept_meanwhile(keys: list[tuple[bytes, ...]]) -> KeyOrder:
            order = build(keys)
            clock.ms += 1000
            assert b._business.memory.drop_expired(1_000)
            return order

        monkeypatch.setattr(state, "build_order", swept_meanwhile)
        assert [number for _, number in b.scan()] == [n for n in range(3 * CHUNK_KEYS) if n % 100]


def test_what_has_ended_counts_as_absent_for_conditions(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        b = store.map("b")
        b.put_many(dict.fromkeys("x", 1))
        for key in "abcd":
            b.put(key, 1, ttl=1)
        assert b.put_if_absent("a", 2) is False
        clock.ms += 1000
        assert b.put_if_absent("a", 2, ttl=5) is True
        assert b.replace("b", 1, 2) is False
        assert b.remove("c", 1) is False
        assert b.pop("d", None) is None
        with pytest.raises(KeyError):
            del b["d"]
        assert dict(b) == {"a": 2, "x": 1}


def test_another_put_takes_the_end_away_or_moves_it(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        b = store.map("b")
        for key in "ab":
            b.put(key, 1, ttl=1)
        b["a"] = 2
        b.put("b", 2, ttl=10)
        clock.ms += 1000
        assert dict(b) == {"a": 2, "b": 2}
        clock.ms += 9000
        assert dict(b) == {"a": 2}


def test_an_end_outlives_reopening_checkpoint_archive_and_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvwal.archiver.remote.Child", InProcess)
    clock = FakeClock()
    with open_store(tmp_path / "root", clock=clock, archive=tmp_path / "archive") as store:
        with store.map("b").transaction() as t:
            t.put("a", 1, ttl=60)
            t["b"] = 2
        store.checkpoint()
    kvwal.restore(tmp_path / "archive", tmp_path / "second")
    for root in (tmp_path / "root", tmp_path / "second"):
        clock.ms = START_MS + 59_999
        with open_store(root, clock=clock, node="n") as other:
            assert other.node == "n"
        with open_store(root, clock=clock) as store:
            assert dict(store.map("b")) == {"a": 1, "b": 2}
            clock.ms += 1
            assert dict(store.map("b")) == {"b": 2}


def test_an_end_is_judged_by_the_moment_that_is_asked_for(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        b = store.map("b")
        b.put("a", 1, ttl=1)
        clock.ms += 500
        early = b.put("b", 1)
        clock.ms += 500
        late = b.put("b", 2)
        assert dict(b.at(early)) == {"a": 1, "b": 1}
        assert dict(b.at(late)) == {"b": 2}
        assert [entry.expires for entry in b.history("a")] == [START_MS + 1000]


@pytest.mark.parametrize("ttl", [0, -1, math.nan, math.inf, 1e300, 10**30, "5"], ids=repr)
def test_an_end_lies_in_the_future_and_not_beyond_all_times(tmp_path: Path, ttl: Any) -> None:
    with open_store(tmp_path) as store:
        b = store.map("b")
        with pytest.raises(CodecError, match="seconds above 0"):
            b.put("a", 1, ttl=ttl)
        with pytest.raises(CodecError, match="seconds above 0"):
            b.put_if_absent("a", 1, ttl=ttl)
        assert dict(b) == {}
        b.put("long", 1, ttl=900 * 365 * 86400)
        assert dict(b) == {"long": 1}


def test_the_memory_of_what_has_ended_is_freed_and_the_log_gets_no_delete(tmp_path: Path) -> None:
    async def work() -> None:
        clock = FakeClock()
        async with open_aio(tmp_path, clock=clock) as store:
            b = store.map("b")
            for number in range(2500):
                await b.put(number, 1, ttl=1)
            await b.put("kept", 1, ttl=2)
            assert [key async for key, _ in b.scan()][-1] == "kept"  # there is an order of keys to keep up
            business = await store._engine_now().business("b")
            await business.maintenance.tick()
            assert sum(map(len, business.state.tables.values())) == 2501
            clock.ms += 1000
            await business.maintenance.tick()
            await business.log.flush()
            assert sum(map(len, business.state.tables.values())) == 1
            assert [key async for key, _ in b.scan()] == ["kept"]
            assert [entry.deleted for entry in await b.history(7)] == [False]

    asyncio.run(work())
    assert logged(tmp_path)[2501:] == [(b"", True)]


def test_a_log_that_has_later_entries_gets_no_time_mark(tmp_path: Path) -> None:
    async def work() -> None:
        clock = FakeClock()
        async with open_aio(tmp_path, clock=clock) as store:
            b = store.map("b")
            await b.put("a", 1, ttl=1)
            clock.ms += 1000
            await b.put("b", 1)
            maintenance = (await store._engine_now().business("b")).maintenance
            for _ in range(3):
                await maintenance.tick()

    asyncio.run(work())
    assert logged(tmp_path) == [(b"a", False), (b"b", False)]


def test_a_time_mark_that_was_refused_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal.archiver.remote.Child", InProcess)

    async def work() -> None:
        clock, disk = FakeClock(), FakeDisk()
        async with open_aio(tmp_path, disk, clock=clock) as store:
            b = store.map("b")
            await b.put("a", 1, ttl=1)
            clock.ms += 1000
            business = await store._engine_now().business("b")
            disk.room = Space(1 << 30, 0)
            with pytest.raises(StorageFull):
                await b.put("large", b"x" * 4_000_000)
            await business.maintenance.tick()
            await business.log.flush()
            disk.room = None
            await business.maintenance.tick()
            await business.log.flush()

    asyncio.run(work())
    with open_store(tmp_path, clock=FakeClock()) as store:
        assert dict(store.map("b")) == {}


def test_what_has_ended_stays_so_over_a_reopening_with_a_clock_that_was_set_back(tmp_path: Path) -> None:
    async def work(clock: FakeClock, *, seen: bool) -> None:
        async with open_aio(tmp_path, clock=clock) as store:
            b = store.map("b")
            if not seen:
                await b.put("a", 1, ttl=60)
                clock.ms += 60_000
                business = await store._engine_now().business("b")
                await business.maintenance.tick()
                await business.log.flush()
            assert await b.get("a") is None

    clock = FakeClock()
    asyncio.run(work(clock, seen=False))
    clock.ms -= 5000
    asyncio.run(work(clock, seen=True))


def test_what_expires_goes_on_expiring_while_the_clock_stands_a_day_back(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        b = store.map("b")
        b.put("before", 1, ttl=5)
        clock.ms -= 86_400_000
        b.put("after", 1, ttl=5)
        clock.seconds += 4.9
        assert dict(b) == {"before": 1, "after": 1}
        clock.seconds += 1.1
        assert dict(b) == {}
        assert b.put_if_absent("after", 2)


@pytest.mark.parametrize("step", [-1, -3_600_000, 0])
def test_timestamps_increase_while_the_clock_steps_back_or_stands(tmp_path: Path, step: int) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        b = store.map("b")
        stamps = []
        for value in range(20):
            stamps.append(b.put("a", value))
            clock.ms += step
    clock.ms = START_MS - 5000
    with open_store(tmp_path, clock=clock) as store:
        b = store.map("b")
        stamps.append(b.put("a", 20))
        assert all(one < next_ for one, next_ in pairwise(stamps))
        assert [entry.timestamp for entry in b.history("a")] == stamps[::-1]
        assert b["a"] == 20


def test_a_clock_that_steps_back_brings_nothing_back_that_has_ended(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        b = store.map("b")
        b.put("a", 1, ttl=1)
        clock.ms += 1000
        b["b"] = 1
        clock.ms -= 5000
        assert dict(b) == {"b": 1}
        b.put("c", 1, ttl=1)
        assert b["c"] == 1
    with open_store(tmp_path, clock=clock) as store:
        assert dict(store.map("b")) == {"b": 1, "c": 1}


def test_what_was_told_to_be_expired_stays_so_when_the_clock_steps_back(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        b = store.map("b")
        b.put("a", 1, ttl=1)
        clock.ms += 1000
        assert "a" not in b
        clock.ms -= 1000
        assert "a" not in b
        assert b.put_if_absent("a", 2)


def test_a_clock_far_behind_the_log_is_refused_unless_accepted(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        last = store.map("b").put("a", 1)
    clock.ms -= 10_001
    with open_store(tmp_path, clock=clock) as store:
        with pytest.raises(ClockSkew, match=r"2026-01-01 00:00:00\.000Z, 10\.0 s ahead.*--accept-clock"):
            store.map("b")
        store.map("other")["a"] = 1
    assert logged(tmp_path) == [(b"a", False)]
    with open_store(tmp_path, clock=clock, accept_clock=True) as store:
        b = store.map("b")
        assert b["a"] == 1
        assert b.put("a", 2) > last
    clock.ms += 1
    with open_store(tmp_path, clock=clock) as store:
        assert store.map("b")["a"] == 2


def test_the_limit_of_the_skew_is_a_setting(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock) as store:
        store.map("b")["a"] = 1
    clock.ms -= 60_000
    with open_store(tmp_path, clock=clock, settings=kvwal.Settings(max_skew_seconds=60)) as store:
        assert store.map("b")["a"] == 1


def test_a_slow_disk_gets_one_time_mark(tmp_path: Path) -> None:
    """Several seconds pass before it is written."""

    async def main() -> None:
        clock = FakeClock()
        async with open_aio(tmp_path, clock=clock) as store:
            b = store.map("b")
            await b.put("a", 1, ttl=1)
            clock.ms += 1000
            maintenance = store._engine_now().businesses["b"].maintenance
            await asyncio.gather(*(maintenance.tick() for _ in range(3)))
            await b.put("b", 1)
            await maintenance.tick()

    asyncio.run(main())
    assert logged(tmp_path) == [(b"a", False), (b"", True), (b"b", False)]


def test_what_expires_while_it_waits_is_absent_for_conditions_after_it_in_its_group(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with open_aio(tmp_path, clock=clock) as store:
            b = store.map("b")
            await b.put("other", 1)
            put, popped = asyncio.ensure_future(b.put("a", 1, ttl=1)), asyncio.ensure_future(b.pop("a", None))
            await asyncio.sleep(0)
            clock.ms += 1000
            await put
            assert await popped is None

    asyncio.run(main())
