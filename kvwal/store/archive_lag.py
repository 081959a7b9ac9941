"""How long the oldest entry that the archive lacks has waited for it."""

from __future__ import annotations

from collections import deque


class ArchiveLag:
    """How long the oldest entry has waited that the archive has not reached. It is told of both about every second.

    What it remembers grows with the logarithm of the wait only, so an age is known to about 1 %.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, float]] = deque()

    def note(self, last: int, reached: int, now: float) -> None:
        """Entries up to `last` are there now, and the archive holds those up to `reached`."""
        while self._waiting and self._waiting[0][0] <= reached:
            self._waiting.popleft()
        waited = self.seconds(reached, now)
        known, at = self._waiting[-1] if self._waiting else (reached, 0.0)
        if last > known and now - at >= waited / 100:
            self._waiting.append((last, now))

    def seconds(self, reached: int, now: float) -> float:
        """How long the oldest entry behind `reached` has waited; 0.0 if it was told of none. On any thread."""
        return next((now - at for last, at in tuple(self._waiting) if last > reached), 0.0)
