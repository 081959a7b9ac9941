"""The hybrid clock follows the wall clock, and never steps back."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kvwal.hlc import HybridClock, to_text, to_timestamp
from tests.support.faults import START_MS


@given(st.lists(st.integers(0, 1 << 44), min_size=1))
def test_whatever_the_wall_does_stamps_increase_and_are_not_before_it(walls: list[int]) -> None:
    clock = HybridClock()
    stamps = [clock.stamp(wall) for wall in walls]
    assert all(earlier < later for earlier, later in pairwise([0, *stamps]))
    assert all(stamp >> 16 >= wall for stamp, wall in zip(stamps, walls, strict=True))
    assert all(0 < stamp < 1 << 63 for stamp in stamps)


def test_a_stamp_is_the_wall_clock_where_nothing_stands_against_it() -> None:
    clock = HybridClock()
    assert clock.stamp(START_MS) == START_MS << 16
    assert clock.stamp(START_MS) == (START_MS << 16) + 1
    assert clock.stamp(START_MS - 5000) == (START_MS << 16) + 2
    assert clock.stamp(START_MS + 1) == (START_MS + 1) << 16


def test_more_stamps_than_the_counter_holds_run_ahead_of_the_wall() -> None:
    clock = HybridClock((START_MS << 16) + 0xFFFF)
    assert clock.stamp(START_MS) == (START_MS + 1) << 16


def test_advance_is_a_floor_and_never_a_step_back() -> None:
    clock = HybridClock()
    clock.advance(START_MS << 16)
    clock.advance(1)
    assert clock.stamp(0) == (START_MS << 16) + 1


def test_the_present_does_not_step_back_either() -> None:
    clock = HybridClock(START_MS << 16)
    assert clock.now_ms(START_MS - 1) == START_MS
    assert clock.now_ms(START_MS + 1) == START_MS + 1


def test_a_moment_is_a_timestamp_or_the_end_of_a_millisecond() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert to_timestamp(moment) == START_MS << 16 | 0xFFFF
    assert to_timestamp(START_MS) == START_MS


def test_a_timestamp_reads_as_date_time_and_counter() -> None:
    assert to_text(START_MS << 16) == "2026-01-01 00:00:00.000Z"
    assert to_text((START_MS + 7) << 16 | 3) == "2026-01-01 00:00:00.007Z+3"
