"""Clock port: wall time, elapsed time and randomness."""

from __future__ import annotations

import secrets
import time
from typing import Protocol


class Clock(Protocol):
    """Source of wall time, elapsed time and random numbers."""

    def wall_ms(self) -> int:
        """Unix time in milliseconds. May step back."""
        ...

    def elapsed(self) -> float:
        """Seconds since some fixed moment. Never steps back."""
        ...

    def random_bits(self, bits: int) -> int:
        """An unpredictable number below `2 ** bits`, which no other process draws if `bits` is large."""
        ...


class SystemClock:
    """Clock and random numbers of the operating system."""

    def wall_ms(self) -> int:
        """Unix time in milliseconds."""
        return time.time_ns() // 1_000_000

    def elapsed(self) -> float:
        """Monotonic seconds. Not of `time.monotonic`, which libraries for tests replace by a clock that stands still."""
        return time.clock_gettime(time.CLOCK_MONOTONIC)

    def random_bits(self, bits: int) -> int:
        """A number below `2 ** bits`, from the operating system."""
        return secrets.randbits(bits)


SYSTEM = SystemClock()
