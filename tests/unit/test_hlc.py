"""The hybrid clock follows the wall clock, and never steps back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvwal.entry import DataEntry
from kvwal.errors import ConfigError, WrongType
from kvwal.hlc import HybridClock, to_text, to_timestamp
from tests.support.disk.faults import START_MS


@given(st.lists(st.integers(0, 1 << 44), min_size=1))
def test_stamps_increase_and_are_not_before_the_wall_clock(walls: list[int]) -> None:
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


def test_advance_is_a_low_watermark_and_never_a_step_back() -> None:
    clock = HybridClock()
    clock.advance(START_MS << 16)
    clock.advance(1)
    assert clock.stamp(0) == (START_MS << 16) + 1


def test_the_present_does_not_step_back_either() -> None:
    clock = HybridClock(START_MS << 16)
    assert clock.now_ms(START_MS - 1, 7.0) == START_MS
    assert clock.now_ms(START_MS + 1, 7.0) == START_MS + 1


def test_the_present_goes_on_by_elapsed_time_after_the_wall_clock_stepped_back() -> None:
    clock = HybridClock(START_MS << 16)
    assert clock.now_ms(START_MS + 1000, 7.0) == START_MS + 1000
    assert clock.now_ms(START_MS - 86_400_000, 7.5) == START_MS + 1500
    assert [clock.now_ms(START_MS, 8 + n / 2048) for n in range(5)] == [START_MS + 2000 + n for n in (0, 0, 0, 1, 1)]
    assert clock.now_ms(START_MS + 3000, 8.0) == START_MS + 3000
    assert clock.now_ms(START_MS, 9.0) == START_MS + 4000


def test_a_moment_is_a_timestamp_or_the_end_of_a_millisecond() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert to_timestamp(moment) == START_MS << 16 | 0xFFFF
    assert to_timestamp(START_MS << 16) == START_MS << 16
    assert to_timestamp(date(2026, 1, 1)) == to_timestamp(datetime(2026, 1, 1))
    assert to_timestamp(datetime(1969, 12, 31, tzinfo=UTC)) == 0xFFFF
    assert to_timestamp(datetime(9999, 12, 31, tzinfo=UTC)) == 2**63 - 1  # an archive has no greater number


@pytest.mark.parametrize("number", [1e0, 1e3, 1e6, 1e9])
def test_a_number_of_another_clock_is_no_timestamp(number: float) -> None:
    with pytest.raises(ConfigError, match=r"no timestamp of kvwal: .* datetime\.fromtimestamp"):
        to_timestamp(int(START_MS // 1000 * number))


@pytest.mark.parametrize("moment", [1.5, True, "2026-01-01", None, b"1"])
def test_what_is_no_moment_is_a_type_error_of_kvwal(moment: Any) -> None:
    with pytest.raises(WrongType, match="is no moment"):
        to_timestamp(moment)
    assert issubclass(WrongType, TypeError)


def test_a_moment_that_no_clock_shows_is_refused() -> None:
    with pytest.raises(ConfigError, match="beyond what"):
        to_timestamp(datetime.min)


def test_a_timestamp_reads_as_date_time_and_counter() -> None:
    assert to_text(START_MS << 16) == "2026-01-01 00:00:00.000Z"
    assert to_text((START_MS + 7) << 16 | 3) == "2026-01-01 00:00:00.007Z+3"


class Compared(int):
    """A number that notes whether the clock was locked when the clock compared it."""

    locked: ClassVar[list[bool]] = []
    clock: ClassVar[HybridClock]

    def __lshift__(self, bits: int) -> Compared:
        return Compared(int(self) << bits)

    def __gt__(self, other: int) -> bool:
        self.locked.append(self.clock.lock.locked())
        return int(self) > int(other)


def test_a_stamp_and_an_advance_exclude_each_other() -> None:
    """A thread that writes a group stamps while the event loop raises the clock: neither may undo the other's step."""
    clock = Compared.clock = HybridClock()
    clock.stamp(Compared(START_MS))
    clock.advance(Compared(clock.last + 1))
    assert Compared.locked == [True, True]


class Refusing:
    """A lock that the main thread must not take: a signal handler that interrupts it may wait for who takes the lock."""

    def __enter__(self) -> None:
        assert threading.current_thread() is not threading.main_thread()

    def __exit__(self, *_: object) -> None:
        pass


def test_the_main_thread_tells_the_time_without_the_lock() -> None:
    clock: Any = HybridClock()
    clock.lock = Refusing()
    with ThreadPoolExecutor(1) as other:
        assert clock.now_ms(START_MS, 0.0) == START_MS
        assert other.submit(clock.now_ms, START_MS - 500, 1.0).result() == START_MS + 1000
        assert other.submit(clock.now_ms, START_MS + 9000, 2.0).result() == START_MS + 9000
        assert clock.now_ms(START_MS, 3.0) == START_MS + 10_000, "what one thread has shown, no other steps back behind"


@given(
    st.integers(2_150_000_000_000, (1 << 47) - 1) | st.integers(0, (1 << 47) - 1),
    st.sampled_from([0, 999]),
    st.sampled_from([UTC, timezone(timedelta(hours=-9, minutes=-30))]),
)
def test_a_datetime_is_the_timestamp_of_its_millisecond(ms: int, micros: int, zone: timezone) -> None:
    """Also after 2038, where seconds in a float have no exact milliseconds."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms, microseconds=micros)
    assert to_timestamp(moment.astimezone(zone)) == ms << 16 | 0xFFFF
    entry = DataEntry(b"k", "str", b"", "", True, ms << 16 | 7)
    assert (entry.when.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) == ms
    assert to_text(entry.timestamp) == moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03}Z+7"


@given(st.datetimes(datetime(2038, 2, 1), datetime(2099, 12, 31)), st.integers(0, 999))
def test_a_datetime_without_a_zone_is_exact_too(second: datetime, ms: int) -> None:
    moment = second.replace(microsecond=1000 * ms)
    assert to_timestamp(moment) == to_timestamp(second.replace(microsecond=0)) + (ms << 16)
