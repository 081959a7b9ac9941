"""Writes of a queue owner: the changes that wait become one transaction, which only the owner of the business can make."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kvwal.cluster.queues.memory import DONE, REFUSED, OwnerRecord, QueueMemory
from kvwal.cluster.queues.requests import PutItem
from kvwal.cluster.queues.table import Claim, QueueTable
from kvwal.config import TRANSACTION_BYTES
from kvwal.entry import TIMESTAMP_SHIFT, Entry, make_entry
from kvwal.errors import ClusterUnreachable, CommitUnknown, KvwalError, Overloaded
from kvwal.log.submission import size_of
from kvwal.ports.boundary import logged, start_task
from kvwal.ports.clock import Clock
from kvwal.ports.tasks import Workers
from kvwal.structures.queue.positions import ITEM_KEY_BYTES, item_class, key_of

_MOST_CHANGES = 256
_WITHIN_SECONDS = 20.0
"""How long one change tries to lock its keys."""
_AGAIN_SECONDS = 0.02
_stopped = logged("the changes of a queue are not written any more because of a bug")


class Change(NamedTuple):
    """One transaction: items that are put, items that are taken away, other entries. `holds`: see `OwnerRecord.held`.

    It is tried until the time `until` while others hold its keys.
    """

    items: Sequence[PutItem]
    taken: Sequence[Claim]
    others: Sequence[Entry]
    future: asyncio.Future[int]
    until: float
    holds: bool = False


class QueueWrites:
    """The writes of one owner. Used on the node's event loop.

    Positions are drawn in the order in which changes are made, so items are in the order of commits.
    """

    def __init__(
        self,
        memory: QueueMemory,
        table: QueueTable,
        workers: Workers,
        clock: Clock,
        record: OwnerRecord,
        changed: Callable[[], None],
    ) -> None:
        """`record` is that of this owner. `changed` is called after each transaction, and when nothing can be written any more.

        Nothing is written while another task has the `turn`.
        """
        self.record = record
        self.is_over = False
        self.turn = asyncio.Lock()
        self._memory = memory
        self._table = table
        self._workers = workers
        self._clock = clock
        self._changed = changed
        self._waiting: list[Change] = []
        self._writer: asyncio.Task[None] | None = None

    async def make(
        self, items: Sequence[PutItem] = (), taken: Sequence[Claim] = (), others: Sequence[Entry] = ()
    ) -> int:
        """Make one change; return its timestamp when it is durable. After every error but `CommitUnknown` nothing was written."""
        return await self._made(items, taken, others)

    async def put_back(self, entries: Sequence[Entry]) -> int:
        """Put items that were taken at their old places. Raises as `make`."""
        timestamp = await self._made((), (), entries)
        self._table.add((entry.key_class, entry.key) for entry in entries)
        self._changed()
        return timestamp

    async def note_held(self) -> None:
        """Note in the owner record that blocks may have items. Raises as `make`."""
        if not self.record.held:
            await self._made((), (), (), holds=True)

    def end(self) -> None:
        """Write nothing any more: another member decides, or may do so."""
        self.is_over = True
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            _fail(change, self.moved())
        self._changed()

    def moved(self) -> ClusterUnreachable:
        """The error of a request to a member that does not decide any more."""
        return ClusterUnreachable(
            f"{self._memory.name}: another member decides on its queues now; nothing was written.", hint="Ask again."
        )

    async def _made(
        self, items: Sequence[PutItem], taken: Sequence[Claim], others: Sequence[Entry], *, holds: bool = False
    ) -> int:
        if self.is_over:
            raise self.moved()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(Change(items, taken, others, future, self._clock.elapsed() + _WITHIN_SECONDS, holds))
        if self._writer is None or self._writer.done():
            self._writer = start_task(self._write_all(), _stopped)
        return await future

    async def _write_all(self) -> None:
        batch: list[Change] = []
        try:
            while self._waiting:
                batch = self._next()
                async with self.turn:
                    await self._write(batch)
        except BaseException:  # the node leaves, or a bug: a request must not wait for ever
            for change in batch:
                _fail(change, CommitUnknown(f"{self._memory.name}: it is not known whether this was written."))
            self.end()
            raise

    def _next(self) -> list[Change]:
        """The changes of the next transaction: those that wait, up to some number and size."""
        count, size = 0, 0
        for change in self._waiting[:_MOST_CHANGES]:
            size += _size(change)
            if count and size > TRANSACTION_BYTES:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _write(self, batch: list[Change]) -> None:
        """Make these changes as one transaction; one by one if others hold a key, or one of them is refused."""
        if self.is_over:
            for change in batch:
                _fail(change, self.moved())
            return
        now = self._clock.wall_ms()
        position = max(self.record.position, self._table.last_position, now << TIMESTAMP_SHIFT)
        placed = []
        for change in batch:
            placed.append(_placed(change.items, position + 1, now))
            position += len(change.items)
        record = OwnerRecord(self.record.epoch, position + 1, self.record.held or any(change.holds for change in batch))
        entries = [entry for pair in zip(batch, placed, strict=True) for entry in _entries(*pair)]
        refused = await self._tried(batch, placed, entries, record)
        if refused is None:
            return
        if len(batch) > 1:
            for change in batch:
                await self._write([change])
        elif isinstance(refused, Overloaded) and self._clock.elapsed() < batch[0].until:
            if not self._waiting:
                await asyncio.sleep(_AGAIN_SECONDS)
            self._waiting += batch  # others go first: a key of this one is held
        else:
            _fail(batch[0], refused)

    async def _tried(
        self, batch: list[Change], placed: list[list[Entry]], entries: list[Entry], record: OwnerRecord
    ) -> KvwalError | None:
        """Try the transaction once. None if it is over, one way or the other; else why nothing was written."""
        try:
            outcome, timestamp = await self._workers.run(
                partial(self._memory.commit, [*entries, record.entry()], self.record.entry())
            )
        except CommitUnknown as error:
            self.is_over = True
            for change in batch:
                _fail(change, error)
            self.end()
            return None
        except KvwalError as error:
            return error
        if outcome == REFUSED:
            for change in batch:
                _fail(change, self.moved())
            self.end()
            return None
        if outcome != DONE:
            return Overloaded(
                f"{self._memory.name}: other transactions, or locks of clients, held the same keys; nothing was written.",
                hint="Let fewer writers change one key.",
            )
        self.record = record
        for change, items in zip(batch, placed, strict=True):
            self._table.forget(change.taken)
            self._table.add((entry.key_class, entry.key) for entry in items)
            if not change.future.done():
                change.future.set_result(timestamp)
        self._changed()
        return None


def _placed(items: Sequence[PutItem], position: int, now_ms: int) -> list[Entry]:
    """The entries of items, at this position and those after it."""
    return [
        make_entry(
            key_of(item.priority, position + number), item_class(item.structure), item.value, item.value_class, False, 0,
            now_ms + item.left_ms if item.left_ms else 0,
        )
        for number, item in enumerate(items)
    ]  # fmt: skip


def _entries(change: Change, items: list[Entry]) -> list[Entry]:
    deletes = [Entry(key, key_class, b"", "", True, 0) for key_class, key in change.taken]
    return [*items, *deletes, *change.others]


def _size(change: Change) -> int:
    deletes = len(change.taken) * (ITEM_KEY_BYTES + 64)
    return deletes + size_of(list(change.others)) + sum(len(item.value) + 128 for item in change.items)


def _fail(change: Change, error: KvwalError) -> None:
    if not change.future.done():
        change.future.set_exception(error)
