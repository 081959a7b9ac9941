"""The schedule of one log's maintenance: which jobs are wanted now, and which of them begins."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kvwal.config import Settings
from kvwal.log.log import Log
from kvwal.store.archive_progress import ArchiveProgress
from kvwal.store.scheduling.timetable import Timetable

MAINTENANCE_SECONDS = 600.0
"""Interval of the jobs that look at what the archive holds."""
_RELIEF_SECONDS = 10.0
_CLEANING_SECONDS = 60.0
"""Interval of the cleanings that no checkpoint begins: of claim files that were kept, and may go now."""
_LONGEST_RELIEF_RETRY = 60.0
_WORTH_FRACTION = 10
_WORTH_BYTES = 1 << 20
"""By the timer, a checkpoint is worth it when the new log is at least this fraction of the snapshot, or of this many bytes."""
_SMALL_OBJECTS = 8
"""Number of new objects after which a compaction does not wait for its timer."""
_SMALL_BYTES = 64 << 10
"""A smaller segment may wait for the archive, where that costs no promise: see `StoreContext.archive_interval_factor`."""
JOB_BYTES = 256 << 20
"""Bytes of segments that one job takes, so that no job runs for long. The rest is wanted again at once."""


class MaintenanceJob(Enum):
    """A job of maintenance. The value is its name in log messages and in `stats`."""

    RELIEVE = "relieve"
    ARCHIVE = "archive"
    CHECKPOINT = "checkpoint"
    COMPACT = "compact"
    CLEAN = "clean"


class Schedule:
    """The timers of one log's maintenance."""

    def __init__(
        self,
        log: Log,
        settings: Settings,
        archive: ArchiveProgress | None,
        archive_interval_factor: Callable[[], int],
        now: float,
    ) -> None:
        """`archive` is the progress of the log's archive, None where the store has no archive."""
        self._log = log
        self._settings = settings
        self._archive = archive
        self._archive_interval_factor = archive_interval_factor
        self._relief_due = now
        self._archive_due = now + settings.archive_seconds
        self._checkpoint_due = now + settings.checkpoint_seconds
        self._compaction_due = now + MAINTENANCE_SECONDS
        self._cleaning_due = now + _CLEANING_SECONDS
        self.timetable = Timetable(
            {
                MaintenanceJob.RELIEVE.value: _LONGEST_RELIEF_RETRY,
                # An archive that answers again is used at once, because what is not archived a lost disk takes.
                MaintenanceJob.ARCHIVE.value: settings.archive_seconds,
                MaintenanceJob.CHECKPOINT.value: max(settings.checkpoint_seconds, MAINTENANCE_SECONDS),
                MaintenanceJob.COMPACT.value: MAINTENANCE_SECONDS,
                MaintenanceJob.CLEAN.value: MAINTENANCE_SECONDS,
            }
        )

    def note(self, now: float, *, may_retire: bool, may_clean: Callable[[], bool]) -> None:
        """Note which jobs are wanted. To be called about every second, while a job runs too.

        `may_retire`: the log holds nothing, and may be removed once the archive was asked what it holds. `may_clean`: claim files
        were kept, and may go.
        """
        self.timetable.note(self._wanted(now, may_retire=may_retire, may_clean=may_clean), now)

    def next_job(self, now: float) -> MaintenanceJob | None:
        """The job that is to begin, None if none is due. The timer of the job begins again. It runs until `ended`."""
        name = self.timetable.begin(now)
        if name is None:
            return None
        job = MaintenanceJob(name)
        if job is MaintenanceJob.RELIEVE:
            self._relief_due = now + _RELIEF_SECONDS
        elif job is MaintenanceJob.CHECKPOINT:
            self._checkpoint_due = now + self._settings.checkpoint_seconds
        elif job is MaintenanceJob.COMPACT:
            self._compaction_due = now + MAINTENANCE_SECONDS
        elif job is MaintenanceJob.CLEAN:
            self._cleaning_due = now + _CLEANING_SECONDS
        return job

    def _wanted(self, now: float, *, may_retire: bool, may_clean: Callable[[], bool]) -> set[str]:
        if self._log.writer.failed is not None:
            return set()
        wanted = {
            MaintenanceJob.RELIEVE: self._log.writer.full is not None and now >= self._relief_due,
            MaintenanceJob.CHECKPOINT: self.checkpoint_is_due(now),
            MaintenanceJob.CLEAN: now >= self._cleaning_due and may_clean(),
        }
        if self._archive is not None:
            wanted[MaintenanceJob.ARCHIVE] = self._wants_archive(self._archive, now, may_retire)
            wanted[MaintenanceJob.COMPACT] = now >= self._compaction_due or self._archive.objects >= _SMALL_OBJECTS
        return {job.value for job, is_wanted in wanted.items() if is_wanted}

    def _wants_archive(self, archive: ArchiveProgress, now: float, may_retire: bool) -> bool:
        if now >= self._archive_due and (self.active_segment_is_old(now) or (may_retire and not archive.seen)):
            return True
        sealed = self._sealed_behind(archive.archived)
        return bool(sealed) and (now >= self._archive_due or sealed >= self._settings.checkpoint_bytes)

    def active_segment_is_old(self, now: float) -> bool:
        """Whether the segment that is written to has entries, and its wait for the archive is over."""
        appender = self._log.appender
        intervals = self._archive_interval_factor() if appender.size < _SMALL_BYTES else 1
        return bool(appender.entries) and now - appender.began >= self._settings.archive_seconds * intervals

    def checkpoint_is_due(self, now: float) -> bool:
        """Whether the log since the last checkpoint is large, or the timer is over and the log is worth a checkpoint."""
        size = self.uncovered()
        if size >= self._settings.checkpoint_bytes:
            return True
        worth = min(self._log.snapshot_bytes, _WORTH_BYTES)
        return bool(size) and now >= self._checkpoint_due and size * _WORTH_FRACTION >= worth

    def uncovered(self) -> int:
        """Bytes of log that no snapshot covers."""
        return self._bytes_behind(self._log.covered)

    def behind(self) -> int:
        """Bytes of log that wait for maintenance: those that no snapshot covers, or those that the archive does not hold."""
        if self._archive is None or not self._archive.seen:
            return self.uncovered()
        return max(self.uncovered(), self._bytes_behind(self._archive.archived))

    def _bytes_behind(self, sequence: int) -> int:
        return self._sealed_behind(sequence) + (self._log.appender.size if self._log.appender.entries else 0)

    def _sealed_behind(self, sequence: int) -> int:
        return sum(segment.size for segment in self._log.sealed if segment.last > sequence)
