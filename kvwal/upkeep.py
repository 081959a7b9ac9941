"""What has to be done for a log from time to time: archive, checkpoint, rewrite, sweep, and letting go of segments.

The writer never waits for any of it. A failure is logged and kept for `stats`; nothing is dropped, and it is tried again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from archive.layout import Place
from kvwal.archiver.jobs import Archive, Archived, Checkpoint, Checkpointed, Kept, SegmentRef, Target, Upkeep
from kvwal.archiver.remote import Archiver
from kvwal.config import Settings
from kvwal.entry import Entry
from kvwal.errors import KvwalError, StoreClosed
from kvwal.hlc import HybridClock
from kvwal.log.log import Log, Ports
from kvwal.log.names import find_places
from kvwal.log.reader import Progress
from kvwal.log.ring import Lookup, Submission, size_of
from kvwal.structures.state import Now, State

_SWEEP_AT_ONCE = 1000
_UPKEEP_SECONDS = 600.0
_RELIEF_SECONDS = 10.0
_WORTH_FRACTION = 10
"""By the timer, a checkpoint is worth it when the new log is at least this fraction of the snapshot it would write anew."""

Work = Callable[[], Coroutine[Any, Any, None]]


class Surroundings(NamedTuple):
    """What all businesses of a store share."""

    ports: Ports
    root: Path
    settings: Settings
    archiver: Archiver
    archive_url: str | None
    options: dict[str, Any]
    accept_clock: bool
    progress: Progress | None
    logger: structlog.stdlib.BoundLogger
    memory: Callable[[Now], State] = State
    """What keeps a business's entries; in a node that is Hazelcast, and this passes them on."""
    hybrid: Callable[[], HybridClock] = HybridClock
    """Makes the clock of a log."""


class Behind:
    """How long the oldest entry has waited that the archive has not reached. It is told of both about every second.

    What it remembers grows with the logarithm of the wait only, so an age is known to about 1 %.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, float]] = deque()

    def note(self, last: int, reached: int, now: float) -> None:
        """Entries up to `last` are there now, and the archive holds those up to `reached`."""
        waited = self.seconds(reached, now)
        known, at = self._waiting[-1] if self._waiting else (reached, 0.0)
        if last > known and now - at >= waited / 100:
            self._waiting.append((last, now))

    def seconds(self, reached: int, now: float) -> float:
        """How long the oldest entry behind `reached` has waited; 0.0 if it was told of none."""
        while self._waiting and self._waiting[0][0] <= reached:
            self._waiting.popleft()
        return now - self._waiting[0][1] if self._waiting else 0.0


class Keeper:
    """Looks after one open log, on the store's event loop.

    `archived` is the last sequence that the archive was seen to hold since the log was opened (`archive_seen`: it was
    asked, or the log is new),
    `archive_error` why the archive was not reached at the last try.
    """

    def __init__(self, place: Place, log: Log, state: State, around: Surroundings) -> None:
        self.place = place
        self.log = log
        self.state = state
        self.archived = 0
        self.archive_seen = around.archive_url is not None and log.recovered.next_sequence == 1
        self.archive_error: KvwalError | None = None
        self._archived_timestamp = 0
        self._archive_nodes: list[str] = []
        self._around = around
        self._turn = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._sweeping = 0
        self._finished = False
        now = around.ports.clock.elapsed()
        self._archive_due = now + around.settings.archive_seconds
        self._checkpoint_due = now + around.settings.checkpoint_seconds
        self._upkeep_due = now + _UPKEEP_SECONDS
        self._relief_due = now
        self._checkpointed = now
        self._behind = Behind()

    async def archive(self) -> None:
        """Seal what is there, archive it, and return when it is confirmed."""
        await self.log.rotate()
        await self._archive_sealed()

    async def checkpoint(self) -> None:
        """Seal what is there, and return when a snapshot holds it."""
        await self.log.rotate()
        async with self._turn:
            self._check_open()
            await self._checkpoint()

    async def finish(self, *, archive: bool) -> None:
        """Wait for what is under way; with `archive`, archive the tail, if the archive can be reached."""
        if self._running is not None:
            await self._running
        if archive and self.log.writer.failed is None:
            await self._in_background(self.archive)
        async with self._turn:  # whoever archives or checkpoints by hand has ended, or comes too late
            self._finished = True

    def archive_lag_seconds(self) -> float:
        """How long the oldest entry that the archive does not hold has waited for it, to about a second."""
        return self._behind.seconds(self.archived, self._around.ports.clock.elapsed())

    def checkpoint_age_seconds(self) -> float:
        """How long ago the last checkpoint was made; since the log was opened, if none was."""
        return self._around.ports.clock.elapsed() - self._checkpointed

    async def tick(self) -> None:
        """What is due now: called about every second."""
        if self._around.archive_url is not None:
            self._behind.note(self.log.appender.next_sequence - 1, self.archived, self._around.ports.clock.elapsed())
        await self._in_background(self._sweep)
        if self._running is not None and not self._running.done():
            return
        work = self._due(self._around.ports.clock.elapsed())
        if work is not None:
            self._running = asyncio.get_running_loop().create_task(self._in_background(work))

    def _due(self, now: float) -> Work | None:
        settings = self._around.settings
        appender = self.log.appender
        if self.log.writer.failed is not None:
            return None
        if self.log.writer.full is not None and now >= self._relief_due:
            self._relief_due = now + _RELIEF_SECONDS
            return self._relieve
        if self._around.archive_url is not None and now >= self._archive_due:
            old = appender.entries and now - appender.began >= settings.archive_seconds
            if old or self._lag_segments():
                self._archive_due = now + (settings.archive_seconds if self.archive_error else 0)
                return self.archive if old else self._archive_sealed
        if self._checkpoint_is_due(now):
            self._checkpoint_due = now + settings.checkpoint_seconds
            return self.checkpoint
        if self._around.archive_url is not None and now >= self._upkeep_due:
            self._upkeep_due = now + _UPKEEP_SECONDS
            return self._upkeep
        return None

    def _checkpoint_is_due(self, now: float) -> bool:
        settings = self._around.settings
        size = self.log.appender.size if self.log.appender.entries else 0
        size += sum(segment.size for segment in self.log.sealed if segment.last > self.log.covered)
        if size >= settings.checkpoint_bytes:
            return True
        return bool(size) and now >= self._checkpoint_due and size * _WORTH_FRACTION >= self.log.snapshot_bytes

    async def _in_background(self, work: Work) -> None:
        """Do what is due. A failure is logged and kept for `stats`: writes go on, nothing is dropped, it is tried again."""
        try:
            await work()
        except (KvwalError, OSError) as error:
            self._around.logger.warning(
                "upkeep failed", business=self.place.business, node=self.place.node, error=str(error)
            )

    async def _relieve(self) -> None:
        """The disk is full: archive and checkpoint at once, so that segments can go. Both may take from the reserve."""
        await self._in_background(self.log.rotate)
        if self._around.archive_url is not None:
            await self._in_background(self._archive_sealed)
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
        ends = self.log.appender.header.first_sequence - 1
        job = Archive(target, str(self.log.folder), [SegmentRef.of(segment) for segment in segments], ends)
        try:
            done = await self._around.archiver.do(job, Archived)
        except KvwalError as error:
            self.archive_error = error
            raise
        self.archive_error = None
        self.archived = done.last_sequence
        self.archive_seen = True
        self._archived_timestamp = done.timestamp
        self._archive_nodes = done.nodes
        await self._drop()

    async def _checkpoint(self) -> None:
        segments = [segment for segment in self.log.sealed if segment.last > self.log.covered]
        if not segments:
            return
        before = await self._around.ports.workers.run(self._tombstones_before)
        job = Checkpoint(str(self.log.folder), [SegmentRef.of(segment) for segment in segments], before)
        done = await self._around.archiver.do(job, Checkpointed)
        if done.last_sequence:
            self.log.covered, self.log.snapshot_bytes = done.last_sequence, done.size
            self._checkpointed = self._around.ports.clock.elapsed()
        await self._drop()

    async def _upkeep(self) -> None:
        target = self._target()
        settings = self._around.settings
        if target is not None and self.archived:
            job = Upkeep(target, int(settings.history_seconds * 1000), int(settings.gc_grace_seconds * 1000))
            await self._around.archiver.do(job, Kept)

    def _tombstones_before(self) -> int:
        """Tombstones up to this timestamp may go: the archive passed them, and nobody else has entries they hold down."""
        places = find_places(
            self._around.ports.disk, self._around.root, self.place.namespace, self.place.cluster, self.place.business
        )
        alone = places == [self.place] and set(self._archive_nodes) <= {self.place.node}
        return self._archived_timestamp if alone else 0

    async def _drop(self) -> None:
        """Let go of segments that a durable snapshot covers and, where there is an archive, that are confirmed there."""
        upto = self.log.covered
        if self._around.archive_url is not None:
            upto = min(upto, self.archived)
        if any(segment.last <= upto for segment in self.log.sealed):
            await self.log.drop(upto)

    async def _sweep(self) -> None:
        """Append a real delete for what has expired, unless it was changed meanwhile; nothing as long as the last ones wait."""
        if self.log.writer.failed is not None or self._sweeping:
            return
        for entry in self.state.expired(_SWEEP_AT_ONCE):
            delete = Entry(entry.key, entry.key_class, b"", "", True, 0)
            future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            future.add_done_callback(self._swept)
            self._sweeping += 1
            submission = Submission([delete], size_of([delete]), future, self._if_still(entry, delete))
            try:
                await self.log.ring.put_soon(submission)
            except KvwalError:
                future.cancel()
                raise

    def _swept(self, done: asyncio.Future[bool]) -> None:
        self._sweeping -= 1
        if not done.cancelled():
            done.exception()

    def _if_still(self, expired: Entry, delete: Entry) -> Callable[[Lookup], list[Entry]]:
        def decide(lookup: Lookup) -> list[Entry]:
            now_there = self.state.tables[expired.key_class].get(expired.key)
            same = now_there is not None and now_there.timestamp == expired.timestamp
            return [delete] if same and lookup(expired.key_class, expired.key) is None else []

        return decide

    def _target(self) -> Target | None:
        around = self._around
        if around.archive_url is None:
            return None
        return Target(
            around.archive_url,
            (self.place.namespace, self.place.cluster, self.place.business, self.place.node),
            self.log.log_id,
            around.options,
        )

    def _lag_segments(self) -> bool:
        return any(segment.last > self.archived for segment in self.log.sealed)
