"""The single consumer of the ring: takes all that waits as one group, and keeps the promises about it.

    decide → stamp → encode → one write → one fdatasync → apply to memory → acknowledge

Memory changes only after the log did, and an answer of any kind leaves only after what it was judged on is as durable as the
flush policy says. One group is under way at a time, so whatever memory holds when a group is formed has been through that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kvwal.config import Flush, Interval
from kvwal.entry import Entry, encode_entries
from kvwal.errors import CommitUnknown, KvwalError, LogFailed, StorageFull, TooLarge
from kvwal.hlc import HybridClock
from kvwal.log.appender import Appender
from kvwal.log.files.format import MAX_PAYLOAD
from kvwal.log.ring import Command, Lookup, Ring, Submission
from kvwal.ports.boundary import call_later, contain_each, logged, settle_awaiting, start_task
from kvwal.ports.clock import Clock
from kvwal.ports.metrics import NO_METRICS, LogMetrics
from kvwal.ports.tasks import Workers

GROUP_BYTES = 8 << 20
"""About what one group takes from the ring at most: it bounds memory, and the wait of those in it."""
BLOCK_BYTES = 4 << 20
"""A group above this is split into blocks, between transactions."""


class Memory:
    """What the writer needs to know of the structure above it. Called on the loop's thread only."""

    def __init__(self, lookup: Callable[[str, bytes], Entry | None], apply: Callable[[list[Entry]], None]) -> None:
        self.lookup = lookup
        self.apply = apply


class Group(NamedTuple):
    """What goes to the disk together. `payloads` are the blocks; `submissions` wait for their answers."""

    submissions: list[Submission]
    entries: list[Entry]
    payloads: list[bytes]
    sync: bool


class Writer:
    """One task of the loop. `failed` is set once, when the log is poisoned, and never cleared.

    `applied` is the last sequence that anybody was told of. `full` is set while the disk has no room: by the group that was
    refused, until one is written. `timestamp` is the last that was written.
    """

    def __init__(
        self,
        ring: Ring,
        appender: Appender,
        memory: Memory,
        hybrid: HybridClock,
        *,
        clock: Clock,
        workers: Workers,
        flush: Flush,
        metrics: LogMetrics = NO_METRICS,
    ) -> None:
        self._ring = ring
        self._appender = appender
        self._memory = memory
        self._hybrid = hybrid
        self._clock = clock
        self._workers = workers
        self._flush = flush
        self._metrics = metrics
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[Any] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self.failed: BaseException | None = None
        self.full: StorageFull | None = None
        self.groups = 0
        self.applied = appender.next_sequence - 1
        self.timestamp = hybrid.last

    async def run(self) -> None:
        """Serve the ring until an order closes it."""
        closed = False
        while not closed:
            submissions, command = await self._ring.take(GROUP_BYTES)
            if submissions:
                await self._serve_or_fail(submissions)
            if command is not None:
                closed = await self._run_command(command)

    async def close(self) -> None:
        """An order: end as a clean close does. A poisoned log is left as it is, for recovery."""
        if self._timer is not None:
            self._timer.cancel()
        if self._preparing is not None:
            await asyncio.wait([self._preparing])
        if self.failed is None:
            await self._guarded(partial(self._appender.close, seal=True))
        else:
            self._appender.close(seal=False)

    async def rotate(self) -> None:
        """An order: seal the segment, if it has entries."""
        self._refuse_if_failed()
        await self._guarded(self._appender.rotate)

    async def flush(self) -> None:
        """An order: fdatasync what is not yet."""
        self._timer = None
        self._refuse_if_failed()
        await self._guarded(self._appender.sync)

    async def _run_command(self, command: Command) -> bool:
        await settle_awaiting(command.future, command.action)
        return command.action == self.close

    async def _guarded(self, call: Callable[[], None]) -> None:
        """Run a call that writes. If it fails, the log is poisoned, unless it says that nothing was written."""
        try:
            await self._workers.run(call)
        except (StorageFull, asyncio.CancelledError):
            raise
        except OSError as error:
            self._poison(error)
            raise self.failure() from error
        except BaseException as error:  # how far it came is not known
            self._poison(error)
            raise

    async def _serve_or_fail(self, submissions: list[Submission]) -> None:
        """Serve. Should a bug stop the writer, nobody may wait for ever: the group's outcome is unknown then."""
        try:
            await self._serve(submissions)
        except BaseException as error:
            _fail(submissions, _unknown(error))
            raise

    async def _serve(self, submissions: list[Submission]) -> None:
        if self.failed is not None:
            self._refuse(submissions, self.failure())
            return
        queued, began = self._ring.waited, self._clock.elapsed()
        group = self._form(submissions)
        try:
            await self._write(group)
        except StorageFull as error:
            self.full = error
            self._refuse(group.submissions, error)
            return
        except OSError as error:
            self._poison(error)
            self._refuse(group.submissions, _unknown(error))
            return
        if group.payloads:
            self.full = None
            self.timestamp = group.entries[-1].timestamp
        self._memory.apply(group.entries)
        self.applied = self._appender.next_sequence - 1
        contain_each([submission.resolve for submission in group.submissions], _not_told)
        self.groups += 1
        size = sum(map(len, group.payloads))
        self._metrics.group(len(group.entries), size, queued, self._clock.elapsed() - began)
        self._after_group()

    def _refuse(self, submissions: list[Submission], error: KvwalError) -> None:
        self._metrics.refused(type(error).__name__, len(submissions))
        _fail(submissions, error)

    def _form(self, submissions: list[Submission]) -> Group:
        """Decide, stamp and encode, in the order of the ring."""
        wall = self._clock.wall_ms()
        stamp = self._hybrid.stamp
        conditions = any(submission.decide is not None for submission in submissions)
        overlay = (
            _Overlay(self._memory.lookup, self._hybrid.now_ms(wall, self._clock.elapsed())) if conditions else None
        )
        taken: list[Submission] = []
        entries: list[Entry] = []
        payloads: list[bytes] = []
        begin, size = 0, 0
        sync = self._flush == "sync"
        for submission in submissions:
            if not submission.begin():
                continue
            taken.append(submission)
            sync = sync or submission.sync
            try:
                mine = self._decide(submission, overlay)
                timestamp = stamp(wall) if mine else 0
            except KvwalError as error:  # one that cannot be judged, or stamped, must not stop the others
                submission.fail(error)
                continue
            if not mine:
                if submission.decide is None:
                    submission.answer = self._hybrid.last
                continue
            for entry in mine:
                entry.timestamp = timestamp
            if submission.size > BLOCK_BYTES and (refused := self._too_large(mine)):
                submission.fail(refused)
                continue
            if submission.decide is None:
                submission.answer = timestamp
            if overlay is not None:
                overlay.add(mine)
            if size and size + submission.size > BLOCK_BYTES:
                payloads.append(encode_entries(entries[begin:]))
                begin, size = len(entries), 0
            entries += mine
            size += submission.size
        if len(entries) > begin:
            payloads.append(encode_entries(entries[begin:]))
        if isinstance(self._flush, Interval) and self._appender.unsynced + sum(map(len, payloads)) >= self._flush.bytes:
            sync = True
        return Group(taken, entries, payloads, sync)

    def _too_large(self, entries: list[Entry]) -> TooLarge | None:
        """Why a transaction cannot be a block. Structures refuse it earlier; whoever submits by another way learns it here."""
        size = len(encode_entries(entries))
        if size <= MAX_PAYLOAD:
            return None
        return TooLarge(
            f"{self._appender.header.business}: a transaction of {len(entries)} entries takes {size} bytes in the log, and one"
            f" block holds {MAX_PAYLOAD}; nothing was written.",
            hint="Split it into smaller ones, or keep large values elsewhere and store where they are.",
        )

    def _decide(self, submission: Submission, overlay: _Overlay | None) -> list[Entry]:
        if submission.decide is None or overlay is None:
            return submission.entries
        entries = submission.decide(overlay.lookup)
        submission.answer = bool(entries)
        return entries

    async def _write(self, group: Group) -> None:
        if group.payloads:
            call = partial(self._appender.append, group.payloads, len(group.entries), sync=group.sync)
            await self._workers.commit(call)
        elif group.sync and not self._appender.clean:
            await self._workers.commit(self._appender.sync)

    def _after_group(self) -> None:
        if isinstance(self._flush, Interval) and self._timer is None and not self._appender.clean:
            loop = asyncio.get_running_loop()
            self._timer = call_later(loop, self._flush.ms / 1000, self._flush_later, self._flush_failed)
        if self._preparing is None and (size := self._appender.wants_spare()):
            self._preparing = start_task(self._prepare(size), _not_prepared)

    def _flush_later(self) -> None:
        self._flushing = start_task(self._ring.command(self.flush), self._flush_failed)

    def _flush_failed(self, error: BaseException) -> None:
        """A log that is closed, full or poisoned refused it. Anything else poisons the log: what was acknowledged may not be
        durable in time.
        """
        if self.failed is None and not isinstance(error, KvwalError):
            self._poison(error)

    async def _prepare(self, size: int) -> None:
        try:
            await self._workers.run(partial(self._appender.prepare_spare, size))
        finally:
            self._preparing = None

    def _poison(self, error: BaseException) -> None:
        self.failed = error

    def _refuse_if_failed(self) -> None:
        if self.failed is not None:
            raise self.failure()

    def failure(self) -> LogFailed:
        """The error of a write that comes after the log has failed."""
        failure = LogFailed(
            f"{self._appender.header.business}: the log failed earlier ({self.failed}); nothing was written.",
            hint="Reading goes on. Mend the disk, then reopen the store: every acknowledged write is recovered.",
        )
        failure.__cause__ = self.failed
        return failure


class _Overlay:
    """Memory as it will be after the transactions of the group so far, at `now_ms`."""

    def __init__(self, lookup: Lookup, now_ms: int) -> None:
        self._below = lookup
        self._now_ms = now_ms
        self._changed: dict[tuple[str, bytes], Entry] = {}

    def add(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._changed[entry.key_class, entry.key] = entry

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        entry = self._changed.get((key_class, key))
        if entry is None:
            return self._below(key_class, key)
        return None if entry.deleted or 0 < entry.expires <= self._now_ms else entry


def _fail(submissions: list[Submission], error: KvwalError) -> None:
    contain_each([partial(submission.fail, error) for submission in submissions], _not_told)


_not_told = logged("the answer to a write met an error where it was given; the write itself stands as it was answered")
_not_prepared = logged("the file of the next segment could not be prepared; it is made when it is needed")


def _unknown(error: BaseException) -> CommitUnknown:
    unknown = CommitUnknown(
        f"the log failed while this write was on its way ({error}).",
        hint="Reopen the store: the write is there whole, or not at all.",
    )
    unknown.__cause__ = error
    return unknown
