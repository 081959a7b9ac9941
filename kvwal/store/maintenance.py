"""What has to be done for a log from time to time: archive, checkpoint, rewrite, sweep, and letting go of segments.

The writer never waits for any of it. A failure is logged and kept for `stats`; nothing is dropped, and it is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from archive.layout import MAX_NUMBER, Place
from kvwal.archiver.jobs import Archive, Archived, ArchiveTarget, Checkpoint, Checkpointed, Compact, Kept, SegmentRef
from kvwal.entry import TIMESTAMP_SHIFT, time_mark
from kvwal.errors import KvwalError, StoreClosed
from kvwal.log.files.names import find_places
from kvwal.log.log import Log
from kvwal.log.ring import Submission, size_of
from kvwal.ports.boundary import contain_awaiting, logged, raised_to_awaiter, start_task, when_done
from kvwal.store.archive_lag import ArchiveLag
from kvwal.store.context import StoreContext
from kvwal.structures.state import State

_SWEEP_AT_ONCE = 1000
MAINTENANCE_SECONDS = 600.0
"""Between two looks at what the archive holds."""
_RELIEF_SECONDS = 10.0
_SETTLED_MS = 3_600_000
"""No transaction of a cluster is under way for so long: its intent counts as older entries of its keys."""
_QUIET_MS = 86_400_000
_WORTH_FRACTION = 10
_WORTH_BYTES = 1 << 20
"""By the timer, a checkpoint is worth it when the new log is at least this fraction of the snapshot, or of this many bytes."""

_not_marked = logged("the sweep of expired keys could not note that its time mark was written, which is a bug")

_SMALL_OBJECTS = 8
"""So many objects since the last compaction are compacted without waiting for the timer."""
_SMALL_BYTES = 64 << 10
"""A segment below it may wait for the archive, where that costs no promise: see `StoreContext.patience`."""

Work = Callable[[], Coroutine[Any, Any, None]]


class Maintenance:
    """Looks after one open log, on the store's event loop.

    `archived` is the last sequence that the archive was seen to hold since the log was opened (`archive_seen`: it was
    asked, or the log is new),
    `archive_error` why the archive was not reached at the last try. `retires` is set where the log may go
    once it holds nothing (see `Retirement`); `held` counts who is not done with it.
    """

    def __init__(self, place: Place, log: Log, state: State, context: StoreContext) -> None:
        self.place = place
        self.log = log
        self.state = state
        self.archived = 0
        self.archive_seen = context.archive_url is not None and log.recovered.next_sequence == 1
        self.archive_error: KvwalError | None = None
        self._archived_timestamp = 0
        self._archive_nodes: list[str] = []
        self._context = context
        self._turn = asyncio.Lock()
        self.failures: dict[str, str] = {}
        """What of the maintenance failed at its last try, and why: archive, checkpoint, compact, sweep, drop or all of a tick."""
        self._running: asyncio.Task[None] | None = None
        self._shared_due = 0.0
        self._expired_ms = 0
        self._marking = False
        self._finished = False
        self.held = 0
        self.retires = False
        now = context.ports.clock.elapsed()
        self._archive_due = now + context.settings.archive_seconds
        self._checkpoint_due = now + context.settings.checkpoint_seconds
        self._compaction_due = now + MAINTENANCE_SECONDS
        self._objects = 0
        self._relief_due = now
        self._checkpointed = now
        self._lag = ArchiveLag()

    async def archive(self) -> None:
        """Seal what is there, archive it, and return when it is confirmed."""
        with self._used():
            await self.log.rotate()
            await self._archive_sealed()

    async def copy_to(self, url: str) -> int:
        """Put all that the log holds into another archive, at `url`; the greatest timestamp of a delete that the log may lack
        (see `Archived`)."""
        with self._used():
            await self.log.rotate()
            async with self._turn:
                self._check_open()
                header = self.log.appender.header
                refs = [SegmentRef.of(segment) for segment in self.log.sealed]
                place = self.place
                target = ArchiveTarget(
                    url, (place.namespace, place.cluster, place.business, place.node), self.log.log_id
                )
                job = Archive(target, str(self.log.folder), refs, header.first_sequence - 1, header.previous_crc)
                return (await self._context.archiver.do(job, Archived)).left_out

    async def checkpoint(self) -> None:
        """Seal what is there, and return when a snapshot holds it."""
        with self._used():
            await self.log.rotate()
            async with self._turn:
                self._check_open()
                await self._checkpoint()

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for any of it, and nothing is under way."""
        return not self.held and (self._running is None or self._running.done())

    @contextmanager
    def _used(self) -> Iterator[None]:
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1

    async def finish(self, *, archive: bool, until: float | None = None) -> None:
        """Wait for what is under way; with `archive`, archive the tail, if the archive can be reached, and the clock has not
        come to `until`.
        """
        if self._running is not None:
            await self._running
        if archive and self.log.writer.failed is None:
            await self._archive_tail(until)
        async with self._turn:  # whoever archives or checkpoints by hand has ended, or comes too late
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
        """How long the oldest entry that the archive does not hold has waited for it, to about a second."""
        return self._lag.seconds(self.archived, self._context.ports.clock.elapsed())

    def checkpoint_age_seconds(self) -> float:
        """How long ago the last checkpoint was made; since the log was opened, if none was."""
        return self._context.ports.clock.elapsed() - self._checkpointed

    async def tick(self) -> None:
        """What is due now: called about every second. Raises nothing: a business that fails costs the others nothing."""
        await self._in_background("tick", self._tick)

    async def _tick(self) -> None:
        if self._context.archive_url is not None:
            self._lag.note(self.log.appender.next_sequence - 1, self.archived, self._context.ports.clock.elapsed())
        await self._in_background("sweep", self._sweep)
        if self._running is not None and not self._running.done():
            return
        due = self._due(self._context.ports.clock.elapsed())
        if due is not None:
            self._running = start_task(self._in_background(*due), raised_to_awaiter)

    def _due(self, now: float) -> tuple[str, Work] | None:
        settings = self._context.settings
        appender = self.log.appender
        if self.log.writer.failed is not None:
            return None
        if self.log.writer.full is not None and now >= self._relief_due:
            self._relief_due = now + _RELIEF_SECONDS
            return "relieve", self._relieve
        if self._context.archive_url is not None and now >= self._archive_due:
            waits = settings.archive_seconds * (self._context.patience() if appender.size < _SMALL_BYTES else 1)
            old = appender.entries and now - appender.began >= waits
            if old or self._lag_segments() or self._may_be_archived():
                self._archive_due = now + (settings.archive_seconds if self.archive_error else 0)
                return "archive", self.archive if old else self._archive_sealed
        if self._checkpoint_is_due(now):
            self._checkpoint_due = now + settings.checkpoint_seconds
            return "checkpoint", self.checkpoint
        if self._context.archive_url is not None and (now >= self._compaction_due or self._objects >= _SMALL_OBJECTS):
            self._compaction_due = now + MAINTENANCE_SECONDS
            return "compact", self._compact
        return None

    def _may_be_archived(self) -> bool:
        """A log that goes when the archive has it, which was not asked since it was opened."""
        return self.retires and not self.archive_seen and self.state.holds_nothing()

    def _checkpoint_is_due(self, now: float) -> bool:
        settings = self._context.settings
        size = self.log.appender.size if self.log.appender.entries else 0
        size += sum(segment.size for segment in self.log.sealed if segment.last > self.log.covered)
        if size >= settings.checkpoint_bytes:
            return True
        worth = min(self.log.snapshot_bytes, _WORTH_BYTES)
        return bool(size) and now >= self._checkpoint_due and size * _WORTH_FRACTION >= worth

    async def _in_background(self, job: str, work: Work) -> None:
        """Do what is due. A failure is logged and kept for `stats`: writes go on, nothing is dropped, it is tried again."""

        async def done() -> None:
            await work()
            self.failures.pop(job, None)

        await contain_awaiting(done, partial(self._failed, job))

    def _failed(self, job: str, error: BaseException) -> None:
        foreseen = isinstance(error, KvwalError | OSError)
        said = str(error) if foreseen else f"a bug: {type(error).__name__}: {error}"
        known, self.failures[job] = self.failures.get(job), said
        self._context.logger.warning(
            "maintenance failed", business=self.place.business, node=self.place.node, job=job, error=said,
            exc_info=None if foreseen or known == said else error,
        )  # fmt: skip

    async def _relieve(self) -> None:
        """The disk is full: archive and checkpoint at once, so that segments can go. Both may take from the reserve."""
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
        segments = [segment for segment in self.log.sealed if segment.last > self.archived]
        target = self._target()
        if target is None or self.archived >= self.log.appender.next_sequence - 1:
            return
        header = self.log.appender.header
        refs = [SegmentRef.of(segment) for segment in segments]
        job = Archive(target, str(self.log.folder), refs, header.first_sequence - 1, header.previous_crc)
        try:
            done = await self._context.archiver.do(job, Archived)
        except KvwalError as error:
            self.archive_error = error
            raise
        self.archive_error = None
        self._objects += done.last_sequence > self.archived
        self.archived = done.last_sequence
        self.archive_seen = True
        self._archived_timestamp = done.timestamp
        self._archive_nodes = done.nodes
        await self._drop()

    async def _checkpoint(self) -> None:
        segments = [segment for segment in self.log.sealed if segment.last > self.log.covered]
        if not segments:
            return
        before, shared = await self._context.ports.workers.run(self._deletes_that_may_go)
        job = Checkpoint(str(self.log.folder), [SegmentRef.of(segment) for segment in segments], before, shared)
        done = await self._context.archiver.do(job, Checkpointed)
        if done.last_sequence:
            self.log.covered, self.log.snapshot_bytes = done.last_sequence, done.size
            self._checkpointed = self._context.ports.clock.elapsed()
        if shared is not None and done.is_delta:
            self._shared_due = 0.0  # no delete was looked at: the next checkpoint may be the one that reaches the base
        await self._drop()

    async def _compact(self) -> None:
        target = self._target()
        settings = self._context.settings
        self._objects = 0
        if target is not None and self.archived:
            job = Compact(target, int(settings.history_seconds * 1000), int(settings.gc_grace_seconds * 1000))
            await self._context.archiver.do(job, Kept)
            await self._mark_if_others_wait()

    def _deletes_that_may_go(self) -> tuple[int, ArchiveTarget | None]:
        """Up to which timestamp a snapshot may leave out deletes, and the archive to ask which of them other nodes need.

        A log that is alone needs none that it has archived, or none at all where there is no archive: nothing older is left that
        they hold down. Among several nodes of an archive a delete is looked at once it is older than what a transaction takes.
        """
        context = self._context
        if not self.is_alone_here():
            return 0, None
        if context.archive_url is None:
            return MAX_NUMBER, None
        if set(self._archive_nodes) <= {self.place.node}:
            return self._archived_timestamp, None
        if context.ports.clock.elapsed() < self._shared_due:
            return 0, None
        self._shared_due = context.ports.clock.elapsed() + MAINTENANCE_SECONDS
        settled = max(0, context.ports.clock.wall_ms() - _SETTLED_MS) << TIMESTAMP_SHIFT
        return min(self._archived_timestamp, settled), self._target()

    def is_alone_here(self) -> bool:
        """Whether no other node has a log of this business under the root. It looks at the disk."""
        context, place = self._context, self.place
        return [place] == find_places(context.ports.disk, context.root, place.namespace, place.cluster, place.business)

    async def _drop(self) -> None:
        """Let go of segments that a durable snapshot covers and, where there is an archive, that are confirmed there."""
        upto = self.log.covered
        if self._context.archive_url is not None:
            upto = min(upto, self.archived)
        if any(segment.last <= upto for segment in self.log.sealed):
            await self.log.drop(upto)

    async def _sweep(self) -> None:
        """Free the memory of what has expired, and see that the log knows a time by which it has.

        The log gets no delete: that would override what another node has put meanwhile (docs/decisions/0022). A log whose
        last timestamp is older gets one time mark, so that a clock that is set back while the store is closed brings nothing
        back.
        """
        while last := self.state.drop_expired(_SWEEP_AT_ONCE):
            self._expired_ms = max(self._expired_ms, last)
            await asyncio.sleep(0)
        if self.log.writer.timestamp >> TIMESTAMP_SHIFT < self._expired_ms:
            self.log.hybrid.advance(self._expired_ms << TIMESTAMP_SHIFT)
            await self._mark()

    async def _mark_if_others_wait(self) -> None:
        """The deletes of other nodes stay until this log's archive has passed them, so a quiet log marks the time once a day."""
        quiet_ms = self._context.ports.clock.wall_ms() - (self.log.writer.timestamp >> TIMESTAMP_SHIFT)
        if quiet_ms >= _QUIET_MS and set(self._archive_nodes) > {self.place.node}:
            await self._mark()

    async def _mark(self) -> None:
        """Append a time mark; none while the last one is on its way, or the log has failed."""
        if self._marking or self.log.writer.failed is not None:
            return
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        when_done(future, self._marked, _not_marked)
        mark = [time_mark()]
        self._marking = True
        try:
            await self.log.ring.put_soon(Submission(mark, size_of(mark), future))
        except KvwalError:
            future.cancel()
            raise

    def _marked(self, done: asyncio.Future[int]) -> None:
        self._marking = False
        if not done.cancelled():
            done.exception()

    def _target(self) -> ArchiveTarget | None:
        context = self._context
        if context.archive_url is None:
            return None
        return ArchiveTarget(
            context.archive_url,
            (self.place.namespace, self.place.cluster, self.place.business, self.place.node),
            self.log.log_id,
            context.options,
        )

    def _lag_segments(self) -> bool:
        return any(segment.last > self.archived for segment in self.log.sealed)
