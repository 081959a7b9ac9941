"""Progress of the archive of one log: the last sequence it confirmed, its lag, and why it was not reached."""

from __future__ import annotations

from collections import deque

from kvwal.archiver.jobs import Archived
from kvwal.errors import KvwalError


class ArchiveLag:
    """Age of the oldest unarchived entry, to about 1 %.

    `note` is called about every second. The number of samples grows with the logarithm of the age.
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
        """Age of the oldest entry after the sequence `reached`; 0.0 if no sample has one. For any thread."""
        return next((now - at for last, at in tuple(self._waiting) if last > reached), 0.0)


class ArchiveProgress:
    """The archive's holdings of one log, as far as they were seen since the log was opened.

    `archived` is the last sequence that the archive confirmed. `seen`: the archive was asked, or the log is new. `error` is
    the reason why the last try did not reach the archive, None if it did. `timestamp` is the greatest one archived. `nodes`
    are the nodes of this business that the archive knows. `objects`: put since the last compaction. `requests`: requests of the
    jobs that succeeded. `lost_tails`: number recorded for this business; None before a job has looked.
    """

    def __init__(self, *, is_new: bool) -> None:
        self.archived = 0
        self.seen = is_new
        self.error: KvwalError | None = None
        self.timestamp = 0
        self.nodes: list[str] = []
        self.objects = 0
        self.requests = 0
        self.lost_tails: int | None = None
        self._lag = ArchiveLag()

    def confirm(self, done: Archived) -> None:
        """The archive holds the log up to `done.last_sequence`."""
        self.error = None
        self.objects += done.last_sequence > self.archived  # one object for each confirmation that moved the position
        self.archived = done.last_sequence
        self.seen = True
        self.timestamp = done.timestamp
        self.nodes = done.nodes
        self.requests += done.requests
        self.lost_tails = done.lost_tails

    def note(self, last: int, now: float) -> None:
        """The log's last sequence is `last` at the moment `now`. To be called about every second."""
        self._lag.note(last, self.archived, now)

    def lag_seconds(self, now: float) -> float:
        """Age of the oldest entry that the archive lacks, to about 1 %, and at best to a second."""
        return self._lag.seconds(self.archived, now)
