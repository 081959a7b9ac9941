"""Background maintenance of one log: archive, checkpoint, compact, sweep expired keys, drop segments.

The writer never waits for it. A job that fails is logged, kept for `stats` and tried again; nothing is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kvwal.archiver.jobs import (
    Archive,
    Archived,
    ArchiveTarget,
    Checkpoint,
    Checkpointed,
    Compact,
    Compacted,
    SegmentRef,
    up_to_bytes,
)
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import KvwalError, StoreClosed
from kvwal.log.files.names import find_places
from kvwal.log.files.segment import SealedSegment
from kvwal.log.log import Log
from kvwal.ports.boundary import raised_to_awaiter, start_task
from kvwal.store.archive_progress import ArchiveProgress
from kvwal.store.contents.care import Candidates, ContentCare
from kvwal.store.contents.open_contents import OpenContents
from kvwal.store.context import StoreContext
from kvwal.store.expiry import ExpirySweep
from kvwal.store.scheduling.failing_jobs import FailingJobs
from kvwal.store.scheduling.schedule import JOB_BYTES, MAINTENANCE_SECONDS, MaintenanceJob, Schedule
from kvwal.store.scheduling.slowdown import Slowdown
from kvwal.structures.memory import BusinessMemory
from kvwal_archive.layout import MAX_NUMBER, Place

_SETTLED_MS = 3_600_000
"""No transaction of a cluster is under way for so long: its intent counts as older entries of its keys."""
_QUIET_MS = 86_400_000
_KEEPS_UP = {job.value for job in (MaintenanceJob.RELIEVE, MaintenanceJob.ARCHIVE, MaintenanceJob.CHECKPOINT)}
"""While one of these jobs fails, writers are not slowed: a slower writer does not mend it."""

Work = Callable[[], Coroutine[Any, Any, None]]


class Maintenance:
    """Maintenance of one open log, on the store's event loop.

    `progress` is that of the log's archive. `failing` are the jobs that failed at their last try: archive, checkpoint, compact,
    relieve, rotate, clean, sweep or tick. `retires`: the log may be removed once it holds nothing (see `Retirement`). `held`
    counts the callers that still use the log.
    """

    def __init__(
        self, place: Place, log: Log, memory: BusinessMemory, contents: OpenContents, context: StoreContext
    ) -> None:
        self.place = place
        self.log = log
        self.memory = memory
        is_archived = context.archive_url is not None
        self.progress = ArchiveProgress(is_new=is_archived and log.recovered.next_sequence == 1)
        self.held = 0
        self.retires = False
        self._context = context
        self._turn = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._shared_due = 0.0
        self._finished = False
        self._checkpointed = now = context.ports.clock.elapsed()
        self._expiry = ExpirySweep(log, memory)
        self._care = ContentCare(contents, log, memory, context, self._target)
        self._schedule = Schedule(
            log, context.settings, self.progress if is_archived else None, context.archive_interval_factor, now
        )
        self.failing = FailingJobs(place, log.folder, context.ports, context.logger, self._schedule.timetable)
        self._slowdown = Slowdown(log, context.settings.checkpoint_bytes)
        self._work: dict[MaintenanceJob, Work] = {
            MaintenanceJob.RELIEVE: self._relieve,
            MaintenanceJob.ARCHIVE: self._archive_next,
            MaintenanceJob.CHECKPOINT: self._checkpoint_next,
            MaintenanceJob.COMPACT: self._compact,
            MaintenanceJob.CLEAN: self._clean_again,
        }

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
            await self.failing.raised(MaintenanceJob.ARCHIVE.value, self._archive_all)

    async def copy_to(self, url: str) -> int:
        """Put all entries of the log into another archive, at `url`.

        Returns the greatest timestamp of a delete that the log may lack (see `Archived`).
        """
        with self._used():
            await self.log.rotate()
            async with self._turn:
                self._check_open()
                await self._care.seal()
                job = self._archive_job(ArchiveTarget(url, self.place, self.log.log_id), self.log.sealed)
                return (await self._context.archiver.do(job, Archived)).left_out

    async def checkpoint(self) -> None:
        """Seal the active segment, and return when a snapshot holds all entries."""
        with self._used():
            await self.failing.raised(MaintenanceJob.CHECKPOINT.value, self._checkpoint_all)

    @property
    def is_idle(self) -> bool:
        """Whether no caller uses the log, and no job is under way."""
        return not self.held and self._running is None

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
        await self._slowdown.end()
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
                await self.failing.contain("archive", self._archive_all)
        except TimeoutError:
            self._context.logger.warning(
                "there was no time left to archive a log", business=self.place.business, node=self.place.node
            )

    def archive_lag_seconds(self) -> float:
        """The wait of the oldest entry that the archive does not hold, to about a second."""
        return self.progress.lag_seconds(self._context.ports.clock.elapsed())

    @property
    def slowed(self) -> float:
        """The share of the time that writers wait, because maintenance does not keep up with them: see `Backpressure`."""
        return self._slowdown.share

    @property
    def slowed_seconds(self) -> float:
        """How long the log's writer has waited for this reason since the log was opened."""
        return self._slowdown.seconds

    def checkpoint_age_seconds(self) -> float:
        """The time since the last checkpoint; since the log was opened, if none was made."""
        return self._context.ports.clock.elapsed() - self._checkpointed

    async def tick(self) -> None:
        """Begin the job that is due. To be called about every second. Raises nothing, so no log delays another."""
        await self.failing.contain("tick", self._tick)

    async def _tick(self) -> None:
        if self.log.writer.full is None:
            self.failing.succeeded("relieve")
            self.failing.succeeded("rotate")
        if self._context.archive_url is not None:
            self.progress.note(self.log.appender.next_sequence - 1, self._context.ports.clock.elapsed())
        await self.failing.contain("sweep", self._expiry.run)
        now = self._context.ports.clock.elapsed()
        may_retire = self.retires and self.memory.holds_nothing()
        self._schedule.note(now, may_retire=may_retire, may_clean=self._care.may_clean)
        works = not self.failing.failures.keys() & _KEEPS_UP and self.log.writer.failed is None
        self._slowdown.note(self._schedule.behind(), works=works)
        if self._running is None and (job := self._schedule.next_job(now)) is not None:
            self._running = start_task(self._run(job), raised_to_awaiter)

    async def _run(self, job: MaintenanceJob) -> None:
        await self.failing.contain(job.value, self._work[job])
        self._schedule.timetable.ended()
        self._running = None

    async def _relieve(self) -> None:
        """Archive and checkpoint at once, because the disk is full: then segments can go. Both may take from the reserve."""
        await self.failing.contain("rotate", self.log.rotate)
        if self._context.archive_url is not None:
            await self.failing.contain("archive", self._archive_sealed)
        await self._checkpoint_sealed()
        await self.failing.contain("clean", self._clean_again)

    async def _archive_all(self) -> None:
        await self.log.rotate()
        await self._archive_sealed()

    async def _archive_sealed(self) -> None:
        """Archive all segments that are sealed now, a part at a time."""
        last, before = self.log.appender.header.first_sequence - 1, -1
        while before < self.archived < last or before < 0:
            before = self.archived
            await self._archive_part()

    async def _archive_next(self) -> None:
        """Archive the next part of the log. The active segment is sealed if its wait is over."""
        if self._schedule.active_segment_is_old(self._context.ports.clock.elapsed()):
            await self.log.rotate()
        await self._archive_part()

    async def _archive_part(self) -> None:
        async with self._turn:
            self._check_open()
            await self._archive()

    async def _checkpoint_all(self) -> None:
        candidates = await self._candidates()
        await self.log.rotate()
        await self._checkpoint_sealed()
        await self._clean(candidates)

    async def _checkpoint_sealed(self) -> None:
        """Bring the snapshot up to the end of all segments that are sealed now, a part at a time."""
        last, before = self.log.appender.header.first_sequence - 1, -1
        while before < self.log.covered < last or before < 0:
            before = self.log.covered
            await self._checkpoint_part()

    async def _checkpoint_next(self) -> None:
        candidates = await self._candidates()
        await self.log.rotate()
        await self._checkpoint_part()
        await self._clean(candidates)

    async def _candidates(self) -> Candidates | None:
        """See `ContentCare.candidates`. None if they cannot be listed: a checkpoint does not wait for that."""
        found: list[Candidates] = []

        async def listed() -> None:
            found.append(await self._care.candidates())

        async with self._turn:  # the store is not closed over the thread that lists them
            self._check_open()
            await self.failing.contain("clean", listed)
        return found[0] if found else None

    async def _clean_again(self) -> None:
        """Clean without a checkpoint: files that were kept may go now."""
        async with self._turn:
            self._check_open()
            await self._clean_dropped()

    async def _clean_dropped(self) -> None:
        """Clean again, because the segments are dropped that named files which nothing else names."""
        candidates = await self._care.candidates()
        await self.log.rotate()
        await self._care.clean(candidates)

    async def _clean(self, candidates: Candidates | None) -> None:
        if candidates is None:
            return
        async with self._turn:
            self._check_open()
            await self.failing.contain("clean", lambda: self._care.clean(candidates))

    async def _checkpoint_part(self) -> None:
        async with self._turn:
            self._check_open()
            await self._checkpoint()

    def _check_open(self) -> None:
        if self._finished:
            raise StoreClosed(f"{self.place.business}: the store was closed meanwhile.", hint="Open it again.")

    async def _archive(self) -> None:
        target = self._target()
        if target is None or self.archived >= self.log.appender.next_sequence - 1:
            await self._drop()  # what the last job archived, and could not drop
            self.failing.succeeded("archive")
            return
        segments = [segment for segment in self.log.sealed if segment.last > self.archived]
        await self._care.seal()  # after the segments: what they name never changes from here on
        job = self._archive_job(target, segments, JOB_BYTES)
        try:
            done = await self._context.archiver.do(job, Archived)
        except KvwalError as error:
            self.progress.error = error
            raise
        self.progress.confirm(done)
        self.failing.succeeded("archive")
        for sentence in done.missing:
            self._context.logger.error(
                "a content was archived without its bytes", business=self.place.business, content=sentence
            )
        await self._drop()
        if self._care.waits and not self.log.sealed:
            await self.failing.contain("clean", self._clean_dropped)

    def _archive_job(self, target: ArchiveTarget, segments: Sequence[SealedSegment], most: int = MAX_NUMBER) -> Archive:
        header = self.log.appender.header
        refs = [SegmentRef.of(segment) for segment in segments]
        return Archive(
            target, str(self.log.folder), refs, header.first_sequence - 1, header.previous_crc, most,
            self._context.settings.reserve_bytes,
        )  # fmt: skip

    async def _checkpoint(self) -> None:
        segments = [segment for segment in self.log.sealed if segment.last > self.log.covered]
        segments = up_to_bytes(segments, max(JOB_BYTES, self._context.settings.checkpoint_bytes))
        if not segments:
            await self._drop()
            self.failing.succeeded("checkpoint")
            return
        before, shared = await self._context.ports.workers.run(self._removable_deletes)
        job = Checkpoint(str(self.log.folder), [*map(SegmentRef.of, segments)], before, shared, self.memory.provenance)
        done = await self._context.archiver.do(job, Checkpointed)
        if done.last_sequence:
            self.log.covered, self.log.snapshot_bytes = done.last_sequence, done.size
            self._checkpointed = self._context.ports.clock.elapsed()
        self.failing.succeeded("checkpoint")
        if shared is not None and done.is_delta:
            self._shared_due = 0.0  # no delete was looked at: the next checkpoint may be the one that reaches the base
        await self._drop()

    async def _compact(self) -> None:
        target = self._target()
        settings = self._context.settings
        self.progress.objects = 0
        if target is not None and self.archived:
            job = Compact(
                target, str(self.log.folder), int(settings.history_seconds * 1000),
                int(settings.gc_grace_seconds * 1000), settings.reserve_bytes,
                self.memory.provenance,
            )  # fmt: skip
            done = await self._context.archiver.do(job, Compacted)
            self.progress.requests += done.requests
            self.progress.lost_tails = done.lost_tails
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
        if self.log.left_files or any(segment.last <= upto for segment in self.log.sealed):
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
