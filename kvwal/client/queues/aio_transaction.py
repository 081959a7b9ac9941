"""Transactions of a business of a cluster for tasks: the changes of one `async with` block, of any of its structures."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import Any, Self

from kvwal.client.contents.aio import AsyncContentsInTransaction
from kvwal.client.contents.transaction import BlockContents, ClusterContentsInTransaction
from kvwal.client.queues.aio_waiting import Client, awaited
from kvwal.client.queues.blocks import QueueBlock
from kvwal.client.queues.structures import ClusterStructures
from kvwal.client.queues.transaction import BlockQueue, ClusterQueuePuts, commit_block
from kvwal.entry import Entry
from kvwal.errors import TransactionClosed
from kvwal.store.aio.waiting import uncancelled
from kvwal.structures.map.changes import EntryBuilder
from kvwal.structures.map.map import Map
from kvwal.structures.map.transaction import MapInTransaction
from kvwal.structures.queue.changes import checked_number
from kvwal.structures.queue.transaction import BlockPuts
from kvwal.structures.queue.waiting import first_of
from kvwal.structures.time_to_live import TimeToLive
from kvwal.structures.transaction import TransactionChanges


class AsyncQueueInTransaction(ClusterQueuePuts):
    """The takes and puts of one queue in a block, for a task. Every call raises `TransactionClosed` outside the block."""

    def __init__(self, client: Client, changes: TransactionChanges, block: QueueBlock, target: BlockQueue) -> None:
        super().__init__(changes, block, target)
        self._client = client

    async def take(self, timeout: float | None = None) -> Any:
        """See `kvwal.store.aio.queue.QueueInTransaction.take`."""
        return first_of(await self.take_many(1, timeout), self._target.name)

    async def take_many(self, most: int, timeout: float | None = 0) -> list[Any]:
        """See `kvwal.store.aio.queue.QueueInTransaction.take_many`."""
        self._block_changes.check_open()
        hold = partial(self._block.hold, self._target.structure, checked_number(most), decodes=True)
        return await awaited(self._client, self._target, hold, self._block.undo, timeout)


class MapInBlock(MapInTransaction):
    """A map in a block, for a task. A read shows what the block has put, and else what the map has at that moment."""

    def __init__(self, client: Client, changes: TransactionChanges, target: Map) -> None:
        super().__init__(changes)
        self._client = client
        self._target = target

    async def get(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, or `default`, with the changes of this block."""
        change = self._pending(key)
        if change is not None:
            return self._value(change, default)
        return await self._client.on_thread(partial(self._target.get, key, default))

    def _changes(self) -> EntryBuilder:
        return self._target._changes


class AsyncClusterTransaction:
    """A transaction over the structures of one business of a cluster, for one task and one `async with` block.

    If the task is cancelled at the end of the block, the outcome is awaited: `timestamp` says whether it was committed.
    """

    def __init__(self, client: Client, business: str) -> None:
        self.changes = TransactionChanges()
        self.timestamp = 0
        self._client = client
        self._name = business
        self._entered: tuple[ClusterStructures, QueueBlock, BlockContents] | None = None

    async def __aenter__(self) -> Self:
        self.changes.begin()
        structures = await self._client.structures(self._name)
        self._entered = structures, structures.queue().block(), BlockContents(structures.content_calls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised. Then set `timestamp`."""
        entries = self.changes.end().entries
        structures, block, claims = self._open()
        if kind is None:
            await self._client.on_thread(partial(self._commit, structures, block, claims, entries))
        else:
            await uncancelled(partial(self._client.on_thread, partial(block.give_back, error)))

    def map(self, name: str = "") -> MapInBlock:
        """A map in the block: what is put is there at its end, and a read in the block shows it."""
        self.changes.check_open()
        return MapInBlock(self._client, self.changes, self._open()[0].map_in_block(name))

    def queue(self, name: str = "") -> AsyncQueueInTransaction:
        """A queue in the block: what is taken is in flight until its end."""
        self.changes.check_open()
        structures, block, _ = self._open()
        return AsyncQueueInTransaction(self._client, self.changes, block, structures.queue(name))

    def content(self, name: str = "") -> AsyncContentsInTransaction:
        """Contents in the block: their bytes are put at once, their names are there at its end."""
        self.changes.check_open()
        structures, _, claims = self._open()
        return AsyncContentsInTransaction(ClusterContentsInTransaction(self.changes, structures.content(name), claims))

    def _commit(
        self, structures: ClusterStructures, block: QueueBlock, claims: BlockContents, entries: list[Entry]
    ) -> None:
        self.timestamp = commit_block(structures.business, block, entries, claims)

    def _open(self) -> tuple[ClusterStructures, QueueBlock, BlockContents]:
        if self._entered is None:
            raise TransactionClosed("this transaction was not begun.", hint="Use it inside `async with`.")
        return self._entered


class AsyncQueueTransaction(AsyncClusterTransaction, BlockPuts):
    """A transaction of one queue of a cluster: see `AsyncClusterTransaction`."""

    def __init__(self, client: Client, business: str, queue_name: str) -> None:
        super().__init__(client, business)
        self._queue_name = queue_name

    def _put(self, items: Iterable[Any], priority: int, ttl: TimeToLive | None, delay: TimeToLive | None) -> None:
        self.queue(self._queue_name).put_many(items, priority=priority, ttl=ttl, delay=delay)

    async def take(self, timeout: float | None = None) -> Any:
        """See `AsyncQueueInTransaction.take`."""
        return await self.queue(self._queue_name).take(timeout)

    async def take_many(self, most: int, timeout: float | None = 0) -> list[Any]:
        """See `AsyncQueueInTransaction.take_many`."""
        return await self.queue(self._queue_name).take_many(most, timeout)
