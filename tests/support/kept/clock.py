"""A clock that a test moves."""

from __future__ import annotations

import random


class HandClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._random = random.Random(1)

    def wall_ms(self) -> int:
        """See `Clock.wall_ms`."""
        return 0

    def elapsed(self) -> float:
        """See `Clock.elapsed`."""
        return self.now

    def random_bits(self, bits: int) -> int:
        """See `Clock.random_bits`."""
        return self._random.getrandbits(bits)
