"""Hybrid logical clock: one integer that follows the wall clock and never steps back.

It is that of Kulkarni et al., "Logical Physical Clocks" (2014), with both parts in one 64-bit word: `unix_ms << 16 | counter`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from kvwal.entry import EPOCH, TIMESTAMP_SHIFT
from kvwal.errors import ConfigError, WrongType
from kvwal.ports.locks import Lock, signals_arrive_here
from kvwal_archive.layout import MAX_NUMBER, to_text

__all__ = ["FIRST_TIMESTAMP", "HybridClock", "datetime_text", "from_text", "second_text", "to_text", "to_timestamp"]

FIRST_TIMESTAMP = 946_684_800_000 << TIMESTAMP_SHIFT
"""The first moment of the year 2000. Seconds, milliseconds and microseconds since 1970, read as timestamps, are all in 1970."""
_NANOSECONDS = range(1_577_836_800 * 10**9, 4_102_444_800 * 10**9)
"""Nanoseconds since 1970 of the years 2020 to 2099. Read as timestamps, they are in the years 2732 to 3953."""
_COUNTERS = (1 << TIMESTAMP_SHIFT) - 1


class HybridClock:
    """The clock of one log: makes its timestamps, and gives the time by which its entries expire.

    Any thread may call its methods: the holder of the ring's turn stamps while the event loop advances the clock. `lock` guards
    its state. The main thread does not take it in `now_ms`, and keeps the time it has shown apart: a signal handler that
    interrupts it may wait for a write, which takes the lock.
    """

    def __init__(self, last: int = 0) -> None:
        self.last = last
        self.lock = Lock()
        self._reached = self._reached_by_main = (0, 0.0)

    def stamp(self, wall_ms: int) -> int:
        """The next timestamp: greater than all earlier ones, and not before `wall_ms`."""
        with self.lock:
            self.last = stamped = max(self.last + 1, wall_ms << TIMESTAMP_SHIFT)
        return stamped

    def advance(self, timestamp: int) -> None:
        """Make all later timestamps greater than `timestamp`."""
        with self.lock:
            self.last = max(self.last, timestamp)

    def now_ms(self, wall_ms: int, elapsed: float) -> int:
        """The current time in unix milliseconds, by which expiry is judged. It never steps back: an expired entry stays expired.

        It is the wall clock. After the wall clock stepped back, it is the latest time shown before plus the time elapsed since.
        `elapsed` is in seconds, of a clock that never steps back.
        """
        known = max(wall_ms, self.last >> TIMESTAMP_SHIFT)
        going_on = self._going_on(elapsed)
        if known > going_on:
            reached = (known, elapsed)  # made before the lock is taken: it may set off the garbage collector
            if signals_arrive_here():
                self._reached_by_main = reached
                return known
            with self.lock:
                if known > self._going_on(elapsed):
                    self._reached = reached
        return max(known, going_on)

    def _going_on(self, elapsed: float) -> int:
        reached, at = self._reached
        by_main, at_main = self._reached_by_main
        return max(reached + int((elapsed - at) * 1000), by_main + int((elapsed - at_main) * 1000))


def to_timestamp(moment: int | date) -> int:
    """The greatest timestamp of `moment`: of a timestamp itself, of the millisecond of a datetime, or of the first millisecond
    of a date. A date, and a datetime without a zone, are local time.

    A date or datetime beyond the last timestamp (the year 6429) is the last timestamp. `WrongType` for anything else.
    `ConfigError` for an int that is no timestamp (for example time.time()), and for a date that the machine's clock cannot show.
    """
    if isinstance(moment, date):
        start = moment if isinstance(moment, datetime) else datetime.combine(moment, time())
        try:
            milliseconds = _unix_ms(start)
        except (ValueError, OverflowError, OSError) as error:
            raise ConfigError(f"{moment!r} is beyond what this machine's clock can show ({error}).") from error
        return min((max(0, milliseconds) << TIMESTAMP_SHIFT) | _COUNTERS, MAX_NUMBER)
    if type(moment) is not int:
        raise WrongType(f"{moment!r} is no moment.", hint=_MOMENTS)
    if not FIRST_TIMESTAMP <= moment <= MAX_NUMBER or moment in _NANOSECONDS:
        raise ConfigError(
            f"{moment} is no timestamp of kvwal: a timestamp is Unix milliseconds × 65,536 plus a counter, as `put` returns it.",
            hint=f"A number of time.time() is datetime.fromtimestamp(number). {_MOMENTS}",
        )
    return moment


def from_text(text: str) -> datetime:
    """A date, or a date and time, of ISO 8601. Without a zone it is UTC, as all times are that kvwal prints. `ValueError` for
    other text.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def datetime_text(moment: datetime) -> str:
    """A datetime with a zone as `to_text` prints timestamps: UTC, to the millisecond, or to the microsecond if it has some."""
    whole = moment.microsecond % 1000 == 0
    text = moment.astimezone(UTC).isoformat(" ", "milliseconds" if whole else "microseconds")
    return f"{text.removesuffix('+00:00')}Z"


def second_text(moment: int) -> str:
    """A moment in unix milliseconds as `to_text` prints timestamps, to the second."""
    return f"{to_text(moment << TIMESTAMP_SHIFT).partition('.')[0]}Z"


def _unix_ms(moment: datetime) -> int:
    """The millisecond of a datetime, counted in whole numbers: a float of today's seconds has no exact milliseconds."""
    if moment.utcoffset() is not None:
        return (moment - EPOCH) // timedelta(milliseconds=1)
    return int(moment.replace(microsecond=0).timestamp()) * 1000 + moment.microsecond // 1000


_MOMENTS = "Give a timestamp that kvwal returned, a datetime, or a date (its first moment)."
