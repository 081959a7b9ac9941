"""The schedule of one log's maintenance: which job is due now."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kvwal.config import Settings
from kvwal.log.log import Log
from kvwal.store.archive_progress import ArchiveProgress

MAINTENANCE_SECONDS = 600.0
"""Interval of the jobs that look at what the archive holds."""
_RELIEF_SECONDS = 10.0
_WORTH_FRACTION = 10
_WORTH_BYTES = 1 << 20
"""By the timer, a checkpoint is worth it when the new log is at least this fraction of the snapshot, or of this many bytes."""
_SMALL_OBJECTS = 8
"""After so many objects a compaction does not wait for its timer."""
_SMALL_BYTES = 64 << 10
"""A smaller segment may wait for the archive, where that costs no promise: see `StoreContext.patience`."""


class Job(Enum):
    """A job of maintenance."""

    RELIEVE = "relieve"
    ARCHIVE = "archive"
    ARCHIVE_SEALED = "archive sealed"
    CHECKPOINT = "checkpoint"
    COMPACT = "compact"


class Schedule:
    """The timers of one log's maintenance."""

    def __init__(
        self, log: Log, settings: Settings, archive: ArchiveProgress | None, patience: Callable[[], int], now: float
    ) -> None:
        """`archive` is the progress of the log's archive, None where the store has no archive."""
        self._log = log
        self._settings = settings
        self._archive = archive
        self._patience = patience
        self._relief_due = now
        self._archive_due = now + settings.archive_seconds
        self._checkpoint_due = now + settings.checkpoint_seconds
        self._compaction_due = now + MAINTENANCE_SECONDS

    def next_job(self, now: float, *, may_retire: bool) -> Job | None:
        """The job that is due, None if none is. The timer of the job begins again.

        `may_retire`: the log holds nothing, and may be removed once the archive was asked what it holds.
        """
        if self._log.writer.failed is not None:
            return None
        if self._log.writer.full is not None and now >= self._relief_due:
            self._relief_due = now + _RELIEF_SECONDS
            return Job.RELIEVE
        if self._archive is not None and now >= self._archive_due:
            is_old = self._active_segment_is_old(now)
            if is_old or self._lacks_sealed(self._archive) or (may_retire and not self._archive.seen):
                self._archive_due = now + (self._settings.archive_seconds if self._archive.error else 0)
                return Job.ARCHIVE if is_old else Job.ARCHIVE_SEALED
        if self.checkpoint_is_due(now):
            self._checkpoint_due = now + self._settings.checkpoint_seconds
            return Job.CHECKPOINT
        if self._archive is not None and (now >= self._compaction_due or self._archive.objects >= _SMALL_OBJECTS):
            self._compaction_due = now + MAINTENANCE_SECONDS
            return Job.COMPACT
        return None

    def _active_segment_is_old(self, now: float) -> bool:
        """Whether the segment that is written to has entries, and its wait for the archive is over."""
        appender = self._log.appender
        intervals = self._patience() if appender.size < _SMALL_BYTES else 1
        return bool(appender.entries) and now - appender.began >= self._settings.archive_seconds * intervals

    def _lacks_sealed(self, archive: ArchiveProgress) -> bool:
        return any(segment.last > archive.archived for segment in self._log.sealed)

    def checkpoint_is_due(self, now: float) -> bool:
        """Whether the log since the last checkpoint is large, or the timer is over and the log is worth a checkpoint."""
        size = self._log.appender.size if self._log.appender.entries else 0
        size += sum(segment.size for segment in self._log.sealed if segment.last > self._log.covered)
        if size >= self._settings.checkpoint_bytes:
            return True
        worth = min(self._log.snapshot_bytes, _WORTH_BYTES)
        return bool(size) and now >= self._checkpoint_due and size * _WORTH_FRACTION >= worth
