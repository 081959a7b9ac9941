"""The door to time and chance."""

from __future__ import annotations

import secrets
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time, elapsed time, and numbers that nobody else will draw."""

    def wall_ms(self) -> int:
        """Unix time in milliseconds. May step back."""
        ...

    def elapsed(self) -> float:
        """Seconds since some fixed moment. Never steps back."""
        ...

    def random_bits(self, bits: int) -> int:
        """A number below `2 ** bits`, unguessable."""
        ...


class SystemClock:
    """The machine's own clock and randomness."""

    def wall_ms(self) -> int:
        """Unix time in milliseconds."""
        return time.time_ns() // 1_000_000

    def elapsed(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def random_bits(self, bits: int) -> int:
        """A number below `2 ** bits`, from the operating system."""
        return secrets.randbits(bits)


SYSTEM = SystemClock()
