"""The archive lag of a log: the wait of the oldest entry that the archive lacks."""

from __future__ import annotations

from collections import deque


class ArchiveLag:
    """The wait of the oldest entry that the archive lacks, to about 1 %.

    `note` is called about every second. The samples kept grow with the logarithm of the wait.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, float]] = deque()

    def note(self, last: int, reached: int, now: float) -> None:
        """Take a sample: at the moment `now` the log has entries up to `last`, the archive those up to `reached`."""
        while self._waiting and self._waiting[0][0] <= reached:
            self._waiting.popleft()
        waited = self.seconds(reached, now)
        known, at = self._waiting[-1] if self._waiting else (reached, 0.0)
        if last > known and now - at >= waited / 100:
            self._waiting.append((last, now))

    def seconds(self, reached: int, now: float) -> float:
        """The wait of the oldest entry behind `reached`; 0.0 if no sample has one. For any thread."""
        return next((now - at for last, at in tuple(self._waiting) if last > reached), 0.0)
