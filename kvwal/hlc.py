"""The hybrid logical clock: one integer that follows the wall clock and never steps back.

After Kulkarni et al., "Logical Physical Clocks" (2014), with both parts in one 64-bit word: `unix_ms << 16 | counter`.
"""

from __future__ import annotations

from datetime import datetime

from archive.layout import to_text
from kvwal.entry import TIMESTAMP_SHIFT

__all__ = ["HybridClock", "to_text", "to_timestamp"]


class HybridClock:
    """Timestamps of one log. Used by one thread at a time: the log writer stamps, readers only look at `last`."""

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def stamp(self, wall_ms: int) -> int:
        """The next timestamp: greater than every one before, and not before `wall_ms`."""
        self.last = max(self.last + 1, wall_ms << TIMESTAMP_SHIFT)
        return self.last

    def advance(self, timestamp: int) -> None:
        """Never stamp at or below `timestamp` from now on."""
        self.last = max(self.last, timestamp)

    def now_ms(self, wall_ms: int) -> int:
        """The present in unix milliseconds, by which expiry is judged: the wall clock, unless it stepped back."""
        return max(wall_ms, self.last >> TIMESTAMP_SHIFT)


def to_timestamp(moment: int | datetime) -> int:
    """The greatest timestamp that belongs to `moment`: a timestamp as it is, or a datetime (naive ones are local time)."""
    if isinstance(moment, datetime):
        milliseconds = int(moment.timestamp() * 1000)
        return (milliseconds << TIMESTAMP_SHIFT) | ((1 << TIMESTAMP_SHIFT) - 1)
    return moment
