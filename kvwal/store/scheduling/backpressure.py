"""Back-pressure of one log: writers are slowed when maintenance does not keep up with them (docs/decisions/0067). Pure."""

from __future__ import annotations

WINDOW_CHECKPOINTS = 4
"""Writers are slowed from this multiple of `checkpoint_bytes` on, and most of all at twice that."""
MOST_SHARE = 0.9
"""The most of the time that writers wait: they are slowed, and never stopped."""


class Backpressure:
    """The share of the time for which the writers of a log wait.

    Bytes that are behind are bytes of log that no snapshot covers, or that the archive does not hold. Writers are slowed only for
    what grew while maintenance worked: a backlog that was there when the log was opened, or that grew while a job failed, is not
    theirs, and slowing them then would help nobody. As that backlog shrinks, so does what is not counted.
    """

    def __init__(self, checkpoint_bytes: int) -> None:
        self._window = WINDOW_CHECKPOINTS * checkpoint_bytes
        self._from: int | None = None
        self.share = 0.0

    def note(self, behind: int, *, works: bool) -> float:
        """The share that writers wait from now on: 0.0 up to `MOST_SHARE`.

        `behind` is the number of bytes behind now; `works`: no job of the maintenance fails. To be called about every second.
        """
        start = max(self._window, behind)
        self._from = start if self._from is None or not works else min(self._from, start)
        over = max(0, behind - self._from)
        self.share = min(MOST_SHARE, over / self._window)
        return self.share
