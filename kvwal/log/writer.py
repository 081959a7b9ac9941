"""The log writer: the single consumer of the ring. It writes all waiting submissions as one group (group commit).

    decide → stamp → encode → one write → one fdatasync → apply to memory → acknowledge

Memory changes only after the log. A result is given only after the entries that it depends on are as durable as the flush policy
says: those of the write itself, and those that its condition was decided on. One group is written at a time, so all entries that
memory holds when a group is formed are that durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from kvwal.config import Flush, Interval
from kvwal.entry import Entry, encode_entries
from kvwal.errors import CommitUnknown, KvwalError, LogFailed, StorageFull
from kvwal.hlc import HybridClock
from kvwal.log.appender import Appender, LogMoved
from kvwal.log.files.format import FORMAT, MAX_PAYLOAD, NEWEST, format_for
from kvwal.log.listeners import Listeners
from kvwal.log.ring import GROUP_BYTES, Ring
from kvwal.log.submission import Group, GroupView, LargeTransaction, LogMemory, Submission, WriterCommand, size_of
from kvwal.ports.boundary import (
    call_later,
    call_on,
    contain,
    logged,
    settle_awaiting,
    start_task,
)
from kvwal.ports.clock import Clock
from kvwal.ports.metrics import NO_METRICS, LogMetrics
from kvwal.ports.tasks import Workers

BLOCK_BYTES = 4 << 20
"""Bytes above which a group is split into several blocks, between transactions."""
_MEND = "Reading goes on. Mend the disk, then reopen the store: every acknowledged write is recovered."
_TURN_SECONDS = 0.005
"""How long the writer keeps the event loop for itself while the ring is never empty."""


class Writer:
    """The writer of one log, for the holder of the ring's turn: the event loop (`run`), or a thread (`serve_here`).

    `failed` is set once, when the log is poisoned, and never cleared.

    `applied` is the last sequence that was applied to memory. `full` is the error of a group that was refused on a full disk; a
    group that is written clears it. `timestamp` is the last one that was written. `listeners` are woken when a group was applied,
    and when the log has failed.
    """

    def __init__(
        self,
        ring: Ring,
        appender: Appender,
        memory: LogMemory,
        hybrid: HybridClock,
        *,
        clock: Clock,
        workers: Workers,
        flush: Flush,
        overflow_bytes: int,
        metrics: LogMetrics = NO_METRICS,
    ) -> None:
        """Made on the log's event loop. A transaction above `overflow_bytes` goes into an overflow file."""
        self._loop = asyncio.get_running_loop()
        self.ring = ring
        self.appender = appender
        self._memory = memory
        self._hybrid = hybrid
        self._clock = clock
        self._workers = workers
        self._flush = flush
        self._overflow_bytes = overflow_bytes
        self._metrics = metrics
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[Any] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._closing = False
        self.failed: BaseException | None = None
        self.full: StorageFull | None = None
        self.groups = 0
        self.applied = appender.next_sequence - 1
        self.timestamp = hybrid.last
        self.listeners = Listeners()

    async def run(self) -> None:
        """Serve the ring until a command closes it.

        While the ring is never empty, nothing here may ever suspend. So every few milliseconds the loop's other calls and timers
        have a turn: a close, a checkpoint, a flush that is due. A turn after each group would cost up to a quarter of a put.
        """
        closed = False
        turned = self._clock.elapsed()
        while not closed:
            submissions, command = await self.ring.take(GROUP_BYTES)
            if submissions:
                await self._serve_or_fail(submissions)
                if (now := self._clock.elapsed()) - turned >= _TURN_SECONDS:
                    turned = now
                    await asyncio.sleep(0)
            if command is not None:
                closed = await self._run_command(command)

    async def close(self) -> None:
        """Command: seal and close the log. A poisoned log is left unsealed, for recovery."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._preparing is not None:
            await asyncio.wait([self._preparing])
        if self.failed is None:
            await self._guarded(partial(self.appender.close, seal=True))
        else:
            self.appender.close(seal=False)

    async def rotate(self) -> None:
        """Command: seal the segment, if it has entries."""
        self._refuse_if_failed()
        await self._guarded(self.appender.rotate)

    async def flush(self) -> None:
        """Command: fdatasync all that was appended."""
        self._timer = None
        self._refuse_if_failed()
        await self._guarded(self.appender.sync)

    async def _run_command(self, command: WriterCommand) -> bool:
        await settle_awaiting(command.future, command.action)
        return command.action == self.close

    async def _guarded(self, call: Callable[[], None]) -> None:
        """Run a call that writes. An error poisons the log, except `StorageFull`, which says that nothing was written."""
        try:
            await self._workers.run(call)
        except (StorageFull, asyncio.CancelledError):
            raise
        except OSError as error:
            self._poison(error)
            raise self.failure() from error
        except BaseException as error:  # it is not known how much was written
            self._poison(error)
            raise

    def serve_here(self, submissions: list[Submission]) -> None:
        """Serve a group on this thread, which holds the ring's turn and is not the loop's. Raises nothing."""
        contain(partial(self._serve_here, submissions), partial(self._stop, submissions))

    def _stop(self, submissions: list[Submission], error: BaseException) -> None:
        """A bug stopped a group on a caller's thread: poison the log and tell its callers. No caller may wait for ever."""
        self._poison(error)
        self.ring.answer(submissions, _unknown(error))
        self.ring.stop(error)

    def _serve_here(self, submissions: list[Submission]) -> None:
        group = self._form_or_refuse(submissions)
        if group is None:
            return
        try:
            self._write(group)
        except StorageFull as error:
            self._refuse_full(group, error)
        except OSError as error:
            self._not_written(group, error)
        else:
            self._written(group)
            if self._wants_loop():
                call_on(self._loop, self._after_group, _not_prepared)

    async def _serve_or_fail(self, submissions: list[Submission]) -> None:
        """Serve a group. If a bug stops the writer, the group's callers get `CommitUnknown`: no caller may wait for ever."""
        try:
            await self._serve(submissions)
        except BaseException as error:
            self.ring.answer(submissions, _unknown(error))
            raise

    async def _serve(self, submissions: list[Submission]) -> None:
        group = self._form_or_refuse(submissions)
        if group is None:
            return
        try:
            if group.payloads or (group.sync and not self.appender.clean):
                await self._workers.commit(partial(self._write, group))
        except StorageFull as error:
            self._refuse_full(group, error)
        except OSError as error:
            self._not_written(group, error)
        else:
            self._written(group)
            self._after_group()

    def _form_or_refuse(self, submissions: list[Submission]) -> Group | None:
        if self.failed is not None:
            self._refuse(submissions, self.failure())
            return None
        return self._form(submissions)

    def _not_written(self, group: Group, error: OSError) -> None:
        self._poison(error)
        self._refuse(group.submissions, _unknown(error))

    def _refuse_full(self, group: Group, error: StorageFull) -> None:
        self.full = error
        for one in group.large:
            if one.written is not None:
                self.appender.overflow.discard(one.written)
        if group.large:
            self.appender.overflow.discard_placed(self.appender.next_sequence)
        self._refuse(group.submissions, error)

    def _written(self, group: Group) -> None:
        """The group is in the log: apply it to memory, then acknowledge it."""
        if group.payloads:
            self.full = None
            self.timestamp = group.entries[-1].timestamp
        self._memory.apply(group.entries)
        self.applied = self.appender.next_sequence - 1
        self.groups += 1
        size = sum(map(len, group.payloads))
        self._metrics.group(len(group.entries), size, group.queued, self._clock.elapsed() - group.began)
        self.ring.answer(group.submissions)
        self.listeners.wake()

    def _refuse(self, submissions: list[Submission], error: KvwalError) -> None:
        self._metrics.refused(type(error).__name__, len(submissions))
        self.ring.answer(submissions, error)

    def _form(self, submissions: list[Submission]) -> Group:
        """Decide, stamp and encode the submissions, in the order of the ring."""
        queued, began = self.ring.waited, self._clock.elapsed()
        wall = self._clock.wall_ms()
        stamp = self._hybrid.stamp
        derive = self._memory.derive
        conditions = derive is not None or any(submission.decide is not None for submission in submissions)
        view = self._view(wall, began) if conditions else None
        taken: list[Submission] = []
        entries: list[Entry] = []
        payloads: list[bytes] = []
        large: list[LargeTransaction] = []
        begin, size, claims = 0, 0, False
        sync = self._flush == "sync"
        for submission in submissions:
            if not submission.begin():
                if submission.overflow is not None:
                    self.appender.overflow.discard(submission.overflow)
                submission.withdraw(None)
                continue
            taken.append(submission)
            claims = claims or submission.large is not None
            sync = sync or submission.sync
            try:
                decided = self._decide(submission, view)
                timestamp = stamp(wall) if decided else 0
            except KvwalError as error:  # a condition that cannot be decided must not stop the other submissions
                submission.error = error
                continue
            if not decided:
                if submission.decide is None:
                    submission.answer = self._hybrid.last
                continue
            for entry in decided:
                entry.timestamp = timestamp
            if submission.decide is None:
                submission.answer = timestamp
            if view is not None:
                decided = self._derived(submission, decided, view) if derive is not None else decided
                view.add(decided)
            if size and size + submission.size > BLOCK_BYTES:
                payloads.append(encode_entries(entries[begin:]))
                begin, size = len(entries), 0
            entries += decided
            if submission.overflow is None and not self._overflows(submission.size, decided):
                size += submission.size
                continue
            if size:
                payloads.append(encode_entries(entries[begin : -len(decided)]))
            large.append(LargeTransaction(len(payloads), len(entries) - len(decided), decided, submission.overflow))
            payloads.append(b"")
            begin, size = len(entries), 0
        if len(entries) > begin:
            payloads.append(encode_entries(entries[begin:]))
        if isinstance(self._flush, Interval) and self.appender.unsynced + sum(map(len, payloads)) >= self._flush.bytes:
            sync = True
        return Group(taken, entries, payloads, large, self._format(view, claims), sync, queued, began)

    def _derived(self, submission: Submission, decided: list[Entry], view: GroupView) -> list[Entry]:
        """A transaction with what the memory adds to it. Its file, if it was written ahead, lacks that: it is written anew."""
        assert self._memory.derive is not None
        derived = self._memory.derive(decided, view)
        submission.size += max(0, size_of(derived) - size_of(decided))
        for entry in derived:
            entry.timestamp = decided[0].timestamp
        if submission.overflow is not None:
            self.appender.overflow.discard(submission.overflow)
            submission.overflow = None
        return derived

    def _format(self, view: GroupView | None, claims: bool) -> int:
        """The format that a group needs. Entries of queues and contents were decided, so a group of plain puts costs nothing."""
        if claims:  # new ones; those of before are in a log of this format
            return NEWEST
        return FORMAT if view is None or self.appender.header.format == NEWEST else format_for(view.classes())

    def _overflows(self, size: int, entries: list[Entry]) -> bool:
        """Whether a transaction goes into an overflow file. `size` is that of its submission, which may be above its own."""
        if size <= self._overflow_bytes and size <= BLOCK_BYTES:
            return False
        return size_of(entries) > self._overflow_bytes or len(encode_entries(entries)) > MAX_PAYLOAD

    def _view(self, wall: int, elapsed: float) -> GroupView:
        memory, hybrid = self._memory, self._hybrid

        def stamps(count: int) -> int:
            first = hybrid.stamp(wall)
            hybrid.advance(first + count - 1)
            return first

        return GroupView(memory.lookup, memory.state, hybrid.now_ms(wall, elapsed), stamps)

    def _decide(self, submission: Submission, view: GroupView | None) -> list[Entry]:
        if submission.decide is None or view is None:
            return submission.entries
        entries = submission.decide(view)
        submission.answer = bool(entries)
        return entries

    def _write(self, group: Group) -> None:
        for one in group.large:
            written = one.written or self.appender.write_overflow(one.entries)
            group.payloads[one.payload] = self.appender.place_overflow(written, one.before, one.entries[0].timestamp)
        if group.payloads:
            self.appender.append(group.payloads, len(group.entries), sync=group.sync, format=group.format)
        elif group.sync and not self.appender.clean:
            self.appender.sync()

    def _wants_loop(self) -> bool:
        """Whether `_after_group` has something to do."""
        if isinstance(self._flush, Interval) and self._timer is None and not self.appender.clean:
            return True
        return self._preparing is None and bool(self.appender.wanted_preallocation())

    def _after_group(self) -> None:
        """Begin what follows a group: a flush by timer, and a preallocation. Called on the loop, also when the log is closed."""
        if self._closing:
            return
        if isinstance(self._flush, Interval) and self._timer is None and not self.appender.clean:
            self._timer = call_later(self._loop, self._flush.ms / 1000, self._flush_later, self._flush_failed)
        if self._preparing is None and (size := self.appender.wanted_preallocation()):
            self._preparing = start_task(self._prepare(size), _not_prepared)

    def _flush_later(self) -> None:
        self._flushing = start_task(self.ring.command(self.flush), self._flush_failed)

    def _flush_failed(self, error: BaseException) -> None:
        """Ignore a refusal of a closed, full or poisoned log. Any other error poisons the log, because acknowledged writes may
        not become durable in time.
        """
        if self.failed is None and not isinstance(error, KvwalError):
            self._poison(error)

    async def _prepare(self, size: int) -> None:
        try:
            await self._workers.run(partial(self.appender.preallocate, size))
        finally:
            self._preparing = None

    def _poison(self, error: BaseException) -> None:
        self.failed = error
        self.listeners.wake()

    def _refuse_if_failed(self) -> None:
        if self.failed is not None:
            raise self.failure()

    def failure(self) -> LogFailed:
        """The error of a write to a poisoned log."""
        failure = LogFailed(
            f"{self.appender.header.business}: the log failed earlier ({self.failed}); nothing was written.",
            hint=self.failed.hint if isinstance(self.failed, LogMoved) else _MEND,
        )
        failure.__cause__ = self.failed
        return failure


_not_prepared = logged("the next segment could not be preallocated; it is created when it is needed")


def _unknown(error: BaseException) -> KvwalError:
    if isinstance(error, LogMoved):
        return LogFailed(f"{error}; nothing was written.", hint=error.hint)
    unknown = CommitUnknown(
        f"the log failed while this write was under way ({error}).",
        hint="Reopen the store: the write is there whole, or not at all.",
    )
    unknown.__cause__ = error
    return unknown
