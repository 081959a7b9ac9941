"""The hybrid logical clock: one integer that follows the wall clock and never steps back.

After Kulkarni et al., "Logical Physical Clocks" (2014), with both parts in one 64-bit word: `unix_ms << 16 | counter`.
"""

from __future__ import annotations

from datetime import date, datetime, time

from archive.layout import to_text
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ConfigError, WrongType
from kvwal.ports.locks import Lock

__all__ = ["HybridClock", "to_text", "to_timestamp"]

_FIRST = 946_684_800_000 << TIMESTAMP_SHIFT
"""The year 2000. Seconds, milliseconds and microseconds since 1970, taken for timestamps, all lie in the year 1970."""
_NANOSECONDS = range(1_577_836_800 * 10**9, 4_102_444_800 * 10**9)
"""Nanoseconds since 1970 of the years 2020 to 2099. Taken for timestamps, they lie in the years 2732 to 3953."""
_COUNTERS = (1 << TIMESTAMP_SHIFT) - 1


class HybridClock:
    """Timestamps of one log, and the present by which its entries expire.

    One thread at a time stamps: the log writer's. Any thread may ask for the present; `lock` guards it.
    """

    def __init__(self, last: int = 0) -> None:
        self.last = last
        self.lock = Lock()
        self._reached = (0, 0.0)

    def stamp(self, wall_ms: int) -> int:
        """The next timestamp: greater than every one before, and not before `wall_ms`."""
        self.last = max(self.last + 1, wall_ms << TIMESTAMP_SHIFT)
        return self.last

    def advance(self, timestamp: int) -> None:
        """Never stamp at or below `timestamp` from now on."""
        self.last = max(self.last, timestamp)

    def now_ms(self, wall_ms: int, elapsed: float) -> int:
        """The present in unix milliseconds, by which expiry is judged: the wall clock, or, after that stepped back, the time
        it had shown and what has elapsed since.

        It never steps back, so that what was told to be expired stays so. `elapsed` is in seconds, of a clock that never does.
        """
        known = max(wall_ms, self.last >> TIMESTAMP_SHIFT)
        going_on = self._going_on(elapsed)
        if known > going_on:
            with self.lock:
                if known > self._going_on(elapsed):
                    self._reached = (known, elapsed)
        return max(known, going_on)

    def _going_on(self, elapsed: float) -> int:
        reached, at = self._reached
        return reached + int((elapsed - at) * 1000)


def to_timestamp(moment: int | date) -> int:
    """The greatest timestamp that belongs to `moment`: a timestamp as it is, the millisecond of a datetime, or the first
    millisecond of a date. Without a zone both are local time.

    `WrongType` for anything else, `ConfigError` for an int that is no timestamp (time.time(), say) and for what no clock shows.
    """
    if isinstance(moment, date):
        start = moment if isinstance(moment, datetime) else datetime.combine(moment, time())
        try:
            milliseconds = int(start.timestamp() * 1000)
        except (ValueError, OverflowError, OSError) as error:
            raise ConfigError(f"{moment!r} is beyond what this machine's clock can show ({error}).") from error
        return (max(0, milliseconds) << TIMESTAMP_SHIFT) | _COUNTERS
    if type(moment) is not int:
        raise WrongType(f"{moment!r} is no moment.", hint=_MOMENTS)
    if moment < _FIRST or moment in _NANOSECONDS:
        raise ConfigError(
            f"{moment} is no timestamp of kvwal: those are Unix milliseconds × 65,536 and a counter, as `put` returns them.",
            hint=f"A number of time.time() is datetime.fromtimestamp(number). {_MOMENTS}",
        )
    return moment


_MOMENTS = "Give a timestamp that kvwal returned, a datetime, or a date (its first moment)."
