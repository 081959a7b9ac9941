"""Keeping logs that a follower has read: when they have ended, or have not changed for a while."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kvwal.ports.clock import Clock
from kvwal.spark.eventlog.listing import ListedLog
from kvwal.spark.eventlog.logs import ApplicationIdentity
from kvwal.spark.follower.marks import LogMark
from kvwal.spark.kept.contents import Contents
from kvwal.spark.kept.keeping import Keeping, keep_log
from kvwal.spark.state.records import Silence

QUIET_SECONDS = 600.0
"""A log without an end is kept when it has not changed for so long: its driver was killed, or waits. If it goes on, it is kept
anew."""


class QuietLogs:
    """The logs of one follower that are to be kept. Used by its thread."""

    def __init__(self, contents: Contents, clock: Clock) -> None:
        self._contents = contents
        self._silence = Silence(clock)

    def is_due(self, log: ListedLog, mark: LogMark) -> bool:
        """Whether a log that was read up to this mark is to be kept now."""
        if mark.kept == mark.version:
            return False
        return mark.complete or self._silence.is_longer(log.place, mark.version, QUIET_SECONDS)

    def forget_others(self, places: Collection[str]) -> None:
        """Forget how long logs were quiet that are not at these places: they were deleted."""
        self._silence.forget_others(places)

    def keep(self, log: ListedLog, identity: ApplicationIdentity, beat: Callable[[], None]) -> Keeping:
        """Keep a log: see `keep_log`."""
        return keep_log(self._contents, log, identity, beat)
