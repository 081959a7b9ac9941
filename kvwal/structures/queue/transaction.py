"""A queue in a transaction: what the block takes is in flight until its end, what it puts is there from its end on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from kvwal.entry import Entry, make_entry
from kvwal.structures.business import LocalBusiness
from kvwal.structures.queue.changes import QueueBlock, QueueChanges
from kvwal.structures.queue.positions import priority_of
from kvwal.structures.queue.state import QueueState
from kvwal.structures.queue.waiting import TakersOfLog, first_of, taken_by
from kvwal.structures.queue_items.reservation import Reservation
from kvwal.structures.time_to_live import TimeToLive
from kvwal.structures.transaction import TransactionChanges


class HoldingQueue(Protocol):
    """The synchronous queue, as its transaction uses it."""

    _business: LocalBusiness
    _changes: QueueChanges
    _state: QueueState
    _takers: TakersOfLog

    @property
    def name(self) -> str:
        """The name in messages."""
        ...

    def _hold(self, most: int, held: Reservation, *, decodes: bool) -> None:
        """Hand out up to `most` items."""
        ...

    def _decoded(self, entries: list[Entry]) -> list[Any]:
        """The values of items."""
        ...


class BlockPuts:
    """The puts of one queue in a block: of a folder or a cluster, on a thread or in a task. They write nothing by themselves."""

    def put(
        self, item: Any, *, priority: int = 0, ttl: TimeToLive | None = None, delay: TimeToLive | None = None
    ) -> None:
        """Put an item, at the end of the block. A take of the same block does not get it.

        The block ends with `queue.Full`, and changes nothing, if there is no room for its puts then.
        """
        self.put_many([item], priority=priority, ttl=ttl, delay=delay)

    def put_many(
        self,
        items: Iterable[Any],
        *,
        priority: int = 0,
        ttl: TimeToLive | None = None,
        delay: TimeToLive | None = None,
    ) -> None:
        """Put items in their order, at the end of the block: see `put`."""
        self._put(items, priority, ttl, delay)

    def _put(self, items: Iterable[Any], priority: int, ttl: TimeToLive | None, delay: TimeToLive | None) -> None:
        raise NotImplementedError


class QueuePuts(BlockPuts):
    """The puts of one queue in a block. Every call raises `TransactionClosed` outside the block."""

    def __init__(self, changes: TransactionChanges) -> None:
        self._block_changes = changes

    def _put(self, items: Iterable[Any], priority: int, ttl: TimeToLive | None, delay: TimeToLive | None) -> None:
        block = self._block()
        block.put(priority, self._queue_changes().entries(items, priority, ttl), delay)

    def put_entries(self, entries: Iterable[Entry]) -> None:
        """Put the values of items, with their priorities and times to live, at the end of the block."""
        block, key_class = self._block(), self._queue_changes().key_class
        for e in entries:
            block.put(priority_of(e.key), [make_entry(e.key, key_class, e.value, e.value_class, False, 0, e.expires)])

    def _block(self) -> QueueBlock:
        self._block_changes.check_open()
        changes = self._queue_changes()
        return self._block_changes.decided(changes.structure, lambda: QueueBlock(changes))

    def _queue_changes(self) -> QueueChanges:
        raise NotImplementedError


class QueueInTransaction(QueuePuts):
    """The takes and puts of one queue in a block, on a thread."""

    def __init__(self, changes: TransactionChanges, queue: HoldingQueue) -> None:
        super().__init__(changes)
        self._queue = queue

    def take(self, timeout: float | None = None) -> Any:
        """Take the first item: it is in flight until the end of the block. Waits, and raises `queue.Empty`, as `Queue.take`."""
        return first_of(self._taken(1, timeout), self._queue.name)

    def take_many(self, most: int, timeout: float | None = 0) -> list[Any]:
        """Take up to `most` items, as `Queue.take_many`: they are in flight until the end of the block."""
        return self._taken(most, timeout)

    def hold(self, most: int) -> list[Entry]:
        """Take up to `most` items as they are stored, without a wait."""
        return self._held(most, decodes=False)

    def _held(self, most: int, *, decodes: bool) -> list[Entry]:
        block = self._block()
        held = block.reserve()
        try:
            self._queue._hold(most, held, decodes=decodes)
        except BaseException:
            self._queue._state.give_back(held)
            raise
        finally:
            block.release(held)
        return held.entries

    def _taken(self, most: int, timeout: float | None) -> list[Any]:
        queue = self._queue
        return queue._decoded(taken_by(queue._takers, lambda: self._held(most, decodes=True), timeout))

    def _queue_changes(self) -> QueueChanges:
        return self._queue._changes
