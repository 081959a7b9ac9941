"""Background maintenance of one log: archive, checkpoint, compact, sweep expired keys, drop segments.

The writer never waits for it. A job that fails is logged, kept for `stats` and tried again; nothing is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from archive.layout import MAX_NUMBER, Place
from kvwal.archiver.jobs import Archive, Archived, ArchiveTarget, Checkpoint, Checkpointed, Compact, Kept, SegmentRef
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import KvwalError, StoreClosed
from kvwal.log.files.failures import JobFailure, failure_of, read_failures, write_failures
from kvwal.log.files.names import find_places
from kvwal.log.files.segment import SealedSegment
from kvwal.log.log import Log
from kvwal.ports.boundary import contain_awaiting, raised_to_awaiter, start_task, trace_of_bug
from kvwal.store.archive_progress import ArchiveProgress
from kvwal.store.context import StoreContext
from kvwal.store.expiry import ExpirySweep
from kvwal.store.schedule import MAINTENANCE_SECONDS, MaintenanceJob, Schedule
from kvwal.structures.state import State

_SETTLED_MS = 3_600_000
"""No transaction of a cluster is under way for so long: its intent counts as older entries of its keys."""
_QUIET_MS = 86_400_000

Work = Callable[[], Coroutine[Any, Any, None]]


class Maintenance:
    """Maintenance of one open log, on the store's event loop.

    `progress` is that of the log's archive. `failures` are the jobs that failed at their last try: archive, checkpoint, compact,
    relieve, rotate, sweep or tick; a note beside the log has them for other processes. `retires`: the log may be removed once it
    holds nothing (see `Retirement`). `held` counts the callers that still use the log.
    """

    def __init__(self, place: Place, log: Log, state: State, context: StoreContext) -> None:
        self.place = place
        self.log = log
        self.state = state
        is_archived = context.archive_url is not None
        self.progress = ArchiveProgress(is_new=is_archived and log.recovered.next_sequence == 1)
        self.failures: dict[str, JobFailure] = {}
        self._noted: dict[str, JobFailure] = {}
        self._earlier: dict[str, JobFailure] = {}
        self._note_turn = asyncio.Lock()
        self.held = 0
        self.retires = False
        self._context = context
        self._turn = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._shared_due = 0.0
        self._finished = False
        now = context.ports.clock.elapsed()
        self._checkpointed = now
        self._expiry = ExpirySweep(log, state)
        self._schedule = Schedule(log, context.settings, self.progress if is_archived else None, context.patience, now)
        self._work: dict[MaintenanceJob, tuple[str, Work]] = {
            MaintenanceJob.RELIEVE: ("relieve", self._relieve),
            MaintenanceJob.ARCHIVE: ("archive", self.archive),
            MaintenanceJob.ARCHIVE_SEALED: ("archive", self._archive_sealed),
            MaintenanceJob.CHECKPOINT: ("checkpoint", self.checkpoint),
            MaintenanceJob.COMPACT: ("compact", self._compact),
        }
        """The name of each job, in log messages and in `stats`, and the method that does it."""

    @property
    def archived(self) -> int:
        """The last sequence that the archive confirmed since the log was opened."""
        return self.progress.archived

    @property
    def archive_seen(self) -> bool:
        """Whether the archive was asked for the log since it was opened, or the log is new."""
        return self.progress.seen

    async def archive(self) -> None:
        """Seal the active segment, archive all sealed ones, and return when the archive has confirmed them."""
        with self._used():
            await self.log.rotate()
            await self._archive_sealed()

    async def copy_to(self, url: str) -> int:
        """Put all entries of the log into another archive, at `url`.

        Returns the greatest timestamp of a delete that the log may lack (see `Archived`).
        """
        with self._used():
            await self.log.rotate()
            async with self._turn:
                self._check_open()
                job = self._archive_job(ArchiveTarget(url, self.place, self.log.log_id), self.log.sealed)
                return (await self._context.archiver.do(job, Archived)).left_out

    async def checkpoint(self) -> None:
        """Seal the active segment, and return when a snapshot holds all entries."""
        with self._used():
            await self.log.rotate()
            async with self._turn:
                self._check_open()
                await self._checkpoint()

    @property
    def is_idle(self) -> bool:
        """Whether no caller uses the log, and no job is under way."""
        return not self.held and (self._running is None or self._running.done())

    @contextmanager
    def _used(self) -> Iterator[None]:
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1

    async def finish(self, *, archive: bool, until: float | None = None) -> None:
        """Wait for the job that is under way, and begin no other. With `archive`, archive the tail first.

        The tail stays unarchived if the archive cannot be reached, or when the monotonic clock comes to `until`.
        """
        if self._running is not None:
            await self._running
        if archive and self.log.writer.failed is None:
            await self._archive_tail(until)
        async with self._turn:  # a call of `archive` or `checkpoint` has ended, or will be refused
            self._finished = True

    async def _archive_tail(self, until: float | None) -> None:
        left = None if until is None else max(0.0, until - self._context.ports.clock.elapsed())
        try:
            async with asyncio.timeout(left):
                await self._in_background("archive", self.archive)
        except TimeoutError:
            self._context.logger.warning(
                "there was no time left to archive a log", business=self.place.business, node=self.place.node
            )

    def archive_lag_seconds(self) -> float:
        """The wait of the oldest entry that the archive does not hold, to about a second."""
        return self.progress.lag_seconds(self._context.ports.clock.elapsed())

    def checkpoint_age_seconds(self) -> float:
        """The time since the last checkpoint; since the log was opened, if none was made."""
        return self._context.ports.clock.elapsed() - self._checkpointed

    async def tick(self) -> None:
        """Begin the job that is due. To be called about every second. Raises nothing, so no log delays another."""
        await self._in_background("tick", self._tick)

    async def _tick(self) -> None:
        if self.log.writer.full is None:
            self._succeeded("relieve")
            self._succeeded("rotate")
        if self._context.archive_url is not None:
            self.progress.note(self.log.appender.next_sequence - 1, self._context.ports.clock.elapsed())
        await self._in_background("sweep", self._expiry.run)
        if self._running is not None and not self._running.done():
            return
        may_retire = self.retires and self.state.holds_nothing()
        job = self._schedule.next_job(self._context.ports.clock.elapsed(), may_retire=may_retire)
        if job is not None:
            self._running = start_task(self._in_background(*self._work[job]), raised_to_awaiter)

    async def _in_background(self, job: str, work: Work) -> None:
        """Do a job. A failure is logged and kept for `stats`; writes go on, and a later tick tries the job again."""

        async def done() -> None:
            await work()
            self._succeeded(job)

        await contain_awaiting(done, partial(self._failed, job))
        if self.failures != self._noted:
            await self._note()

    def _succeeded(self, job: str) -> None:
        self.failures.pop(job, None)
        self._earlier.pop(job, None)

    def _failed(self, job: str, error: BaseException) -> None:
        known = self.failures.get(job)
        first = known or self._earlier.get(job)
        failure = failure_of(error, self._context.ports.clock.wall_ms() if first is None else first.since_ms)
        self.failures[job] = failure
        self._context.logger.warning(
            "maintenance failed", business=self.place.business, node=self.place.node, job=job, error=failure.reason,
            exc_info=None if known == failure else trace_of_bug(error),
        )  # fmt: skip

    async def take_note(self) -> None:
        """Read and remove the note of the process that had the log before: no job has failed yet in this one. A job that fails
        again before it succeeds has failed since then.
        """
        disk, folder = self._context.ports.disk, self.log.folder
        self._earlier = await self._context.ports.workers.run(partial(read_failures, disk, folder))
        if self._earlier:
            await self._note()

    async def _note(self) -> None:
        """Note the failures for other processes. A disk that refuses the note is told by the next write to the log."""
        async with self._note_turn:
            self._noted = dict(self.failures)
            write = partial(write_failures, self._context.ports.disk, self.log.folder, self._noted)
            with suppress(OSError):
                await self._context.ports.workers.run(write)

    async def _relieve(self) -> None:
        """Archive and checkpoint at once, because the disk is full: then segments can go. Both may take from the reserve."""
        await self._in_background("rotate", self.log.rotate)
        if self._context.archive_url is not None:
            await self._in_background("archive", self._archive_sealed)
        async with self._turn:
            await self._checkpoint()

    async def _archive_sealed(self) -> None:
        async with self._turn:
            self._check_open()
            await self._archive()

    def _check_open(self) -> None:
        if self._finished:
            raise StoreClosed(f"{self.place.business}: the store was closed meanwhile.", hint="Open it again.")

    async def _archive(self) -> None:
        target = self._target()
        if target is None or self.archived >= self.log.appender.next_sequence - 1:
            self._succeeded("archive")
            return
        job = self._archive_job(target, [segment for segment in self.log.sealed if segment.last > self.archived])
        try:
            done = await self._context.archiver.do(job, Archived)
        except KvwalError as error:
            self.progress.error = error
            raise
        self.progress.confirm(done)
        self._succeeded("archive")
        await self._drop()

    def _archive_job(self, target: ArchiveTarget, segments: Sequence[SealedSegment]) -> Archive:
        header = self.log.appender.header
        refs = [SegmentRef.of(segment) for segment in segments]
        return Archive(target, str(self.log.folder), refs, header.first_sequence - 1, header.previous_crc)

    async def _checkpoint(self) -> None:
        segments = [segment for segment in self.log.sealed if segment.last > self.log.covered]
        if not segments:
            self._succeeded("checkpoint")
            return
        before, shared = await self._context.ports.workers.run(self._removable_deletes)
        job = Checkpoint(str(self.log.folder), [SegmentRef.of(segment) for segment in segments], before, shared)
        done = await self._context.archiver.do(job, Checkpointed)
        if done.last_sequence:
            self.log.covered, self.log.snapshot_bytes = done.last_sequence, done.size
            self._checkpointed = self._context.ports.clock.elapsed()
        self._succeeded("checkpoint")
        if shared is not None and done.is_delta:
            self._shared_due = 0.0  # no delete was looked at: the next checkpoint may be the one that reaches the base
        await self._drop()

    async def _compact(self) -> None:
        target = self._target()
        settings = self._context.settings
        self.progress.objects = 0
        if target is not None and self.archived:
            job = Compact(target, int(settings.history_seconds * 1000), int(settings.gc_grace_seconds * 1000))
            await self._context.archiver.do(job, Kept)
            await self._mark_if_quiet()

    def _removable_deletes(self) -> tuple[int, ArchiveTarget | None]:
        """The timestamp up to which a snapshot may leave out deletes, and the archive to ask which deletes other nodes need.

        A delete is needed while an older entry of its key is left somewhere. A log that is alone needs no delete that it has
        archived; without an archive it needs none. With several nodes in one archive, a delete is looked at once it is older
        than any transaction under way.
        """
        context = self._context
        if not self.is_alone_here():
            return 0, None
        if context.archive_url is None:
            return MAX_NUMBER, None
        if set(self.progress.nodes) <= {self.place.node}:
            return self.progress.timestamp, None
        if context.ports.clock.elapsed() < self._shared_due:
            return 0, None
        self._shared_due = context.ports.clock.elapsed() + MAINTENANCE_SECONDS
        settled = max(0, context.ports.clock.wall_ms() - _SETTLED_MS) << TIMESTAMP_SHIFT
        return min(self.progress.timestamp, settled), self._target()

    def is_alone_here(self) -> bool:
        """Whether no other node has a log of this business under the root. Looks at the disk."""
        context, place = self._context, self.place
        return [place] == find_places(context.ports.disk, context.root, place.namespace, place.cluster, place.business)

    async def _drop(self) -> None:
        """Drop the segments that a durable snapshot covers and, where there is an archive, that the archive has confirmed."""
        upto = self.log.covered
        if self._context.archive_url is not None:
            upto = min(upto, self.archived)
        if any(segment.last <= upto for segment in self.log.sealed):
            await self.log.drop(upto)

    async def _mark_if_quiet(self) -> None:
        """Append a time mark once a day to a quiet log that shares its archive with other nodes.

        The deletes of the other nodes stay until the archive of this log has passed their timestamps.
        """
        quiet_ms = self._context.ports.clock.wall_ms() - (self.log.writer.timestamp >> TIMESTAMP_SHIFT)
        if quiet_ms >= _QUIET_MS and set(self.progress.nodes) > {self.place.node}:
            await self._expiry.mark()

    def _target(self) -> ArchiveTarget | None:
        context = self._context
        if context.archive_url is None:
            return None
        return ArchiveTarget(context.archive_url, self.place, self.log.log_id, context.options)
