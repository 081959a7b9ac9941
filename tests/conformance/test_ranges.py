"""A range of keys is the same slice of the sorted keys from every kind of map: now, in the past, and for tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import islice
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvwal.errors import CodecError, ConfigError
from kvwal.structures.map.map import Map
from tests.support.chance import examples

TEXTS = ["", "a", "a/1", "a/2", "a0", "b", "ß", "ßa", "\U0010ffff"]
NUMBERS = [-(2**70), -1, 0, 9, 10, 300]
MOMENTS = [datetime(year, 1, 31, 12, 0, 0, year % 7, UTC) for year in (2, 1969, 1970, 2026, 9998)]
DAYS = [moment.date() for moment in MOMENTS]
DECIMALS = [Decimal(text) for text in ("-Infinity", "-100", "-12.5", "-0.05", "1E-40", "1.5", "1.51", "99", "Infinity")]
RUNS = [UUID(int=number) for number in (0, 255, 256, 1 << 127)]
TUPLES = [(), ("a",), ("a", 1), ("a", 1, DAYS[3]), ("a", 300), ("a\x00",), ("b", -1, DAYS[2]), ("b", 0)]
ORDERED: dict[str, list[Any]] = {
    "moments": MOMENTS,
    "days": DAYS,
    "decimals": DECIMALS,
    "UUIDs": RUNS,
    "tuples": TUPLES,
}
MIXED: dict[Any, Any] = {
    key: repr(key)
    for key in [
        *TEXTS,
        *NUMBERS,
        2.5,
        -3.0,
        True,
        None,
        b"",
        b"a",
        b"\xff",
        *(key for keys in ORDERED.values() for key in keys),
    ]
}


def sliced(keys: list[Any], start: Any, end: Any, reverse: bool, limit: int | None) -> list[tuple[Any, Any]]:
    """The model: the sorted keys from `start` to before `end`."""
    found = [key for key in keys if (start is None or key >= start) and (end is None or key < end)]
    return [(key, repr(key)) for key in islice(found[::-1] if reverse else found, limit)]


@pytest.mark.parametrize("in_the_past", [False, True], ids=["now", "at"])
@pytest.mark.parametrize("keys", [TEXTS, NUMBERS, *ORDERED.values()], ids=["text", "numbers", *ORDERED])
def test_a_range_is_a_slice_of_the_sorted_keys(jobs: Map, keys: list[Any], in_the_past: bool) -> None:
    timestamp = jobs.put_many(MIXED)
    del jobs["b"], jobs[9]
    there = [key for key in keys if in_the_past or key not in ("b", 9)]
    moment = jobs.at(timestamp) if in_the_past else jobs
    bounds = st.sampled_from([None, *keys])

    @settings(max_examples=examples(25), deadline=None)
    @given(
        st.tuples(bounds, bounds).filter(lambda pair: pair != (None, None)),
        st.booleans(),
        st.sampled_from([None, 0, 1, 3]),
    )
    def check(asked: tuple[Any, Any], reverse: bool, limit: int | None) -> None:
        assert list(moment.range(*asked, reverse=reverse, limit=limit)) == sliced(there, *asked, reverse, limit)

    check()


def test_a_moment_of_another_zone_is_the_same_key(jobs: Map) -> None:
    there = timezone(timedelta(hours=5, minutes=30))
    jobs[MOMENTS[3].astimezone(there)] = "first"
    jobs[MOMENTS[3]] = "second"
    assert dict(jobs) == {MOMENTS[3]: "second"}
    assert [value for (value,) in [(entry.value,) for entry in jobs.history(MOMENTS[3].astimezone(there))]] == [
        b"second",
        b"first",
    ]
    assert date(2026, 1, 31) not in jobs


def test_a_tuple_selects_the_tuples_that_begin_with_it(jobs: Map) -> None:
    jobs.put_many(MIXED)
    assert [key for key, _ in jobs.scan(("a",))] == [("a",), ("a", 1), ("a", 1, DAYS[3]), ("a", 300)]
    assert [entry.key_class for entry in jobs.entries(())] == ["tuple"] * len(TUPLES)


def test_a_range_without_bounds_is_a_scan(jobs: Map) -> None:
    jobs.put_many(MIXED)
    everything = list(jobs.scan())
    assert list(jobs.range()) == everything
    assert list(jobs.range(reverse=True)) == everything[::-1]
    assert list(jobs.range(limit=2, reverse=True)) == everything[:-3:-1]
    assert list(jobs.range(limit=0)) == []


def test_a_long_range_is_read_from_either_end(jobs: Map) -> None:
    jobs.put_many({number: number for number in range(3000)})
    expected = [(number, number) for number in range(100, 2900)]
    assert list(jobs.range(100, 2900)) == expected
    assert list(jobs.range(100, 2900, reverse=True)) == expected[::-1]
    assert list(jobs.range(end=1000, reverse=True, limit=2)) == [(999, 999), (998, 998)]


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda jobs: jobs.range(1, "a"), CodecError),
        (lambda jobs: jobs.range({1}), CodecError),
        (lambda jobs: jobs.range(end=[1]), CodecError),
        (lambda jobs: jobs.range(limit=-1), ConfigError),
        (lambda jobs: jobs.range(limit=True), ConfigError),
        (lambda jobs: jobs.range(limit=1.0), ConfigError),
    ],
)
def test_a_range_that_has_no_meaning_is_refused(jobs: Map, ask: Callable[[Map], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ask(jobs)


def test_tasks_read_the_same_ranges(opening: Callable[[], Any]) -> None:
    async def main() -> None:
        async with opening() as store:
            jobs = store.map("aio-ranges")
            timestamp = await jobs.put_many({f"key-{number:04}": number for number in range(2500)})
            await jobs.delete("key-0010")
            found = [value async for _, value in jobs.range("key-0009", "key-0012")]
            assert found == [9, 11]
            found = [value async for _, value in jobs.range(end="key-2400", reverse=True, limit=3)]
            assert found == [2399, 2398, 2397]
            assert [value async for _, value in jobs.range("key-0100")] == list(range(100, 2500))
            assert [value for _, value in (await jobs.at(timestamp)).range("key-0009", "key-0012")] == [9, 10, 11]
            with pytest.raises(CodecError):
                [value async for _, value in jobs.range(1, "a")]

    asyncio.run(main())
