"""Transactions of a business of a cluster: the changes of one `with` block, of any of its maps, queues and contents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol, Self

from kvwal.client.cluster_business import ClusterBusiness
from kvwal.client.contents.transaction import BlockContents
from kvwal.client.queues.blocks import QueueBlock, room_of
from kvwal.cluster.queues.requests import Item, PutItem
from kvwal.content.claim import is_content
from kvwal.entry import Entry, entry_identity
from kvwal.key_class import is_of_map
from kvwal.structures.queue.changes import checked_number
from kvwal.structures.queue.options import delay_ms_of
from kvwal.structures.queue.transaction import BlockPuts
from kvwal.structures.queue.waiting import first_of
from kvwal.structures.time_to_live import TimeToLive
from kvwal.structures.transaction import TransactionChanges, checked_size, commit


class BlockQueue(Protocol):
    """The queue of a cluster, as its blocks use it."""

    structure: str
    business: ClusterBusiness

    @property
    def name(self) -> str:
        """The name in messages."""
        ...

    def block(self) -> QueueBlock:
        """A block of takes and puts."""
        ...

    def encoded(self, items: Iterable[Any], priority: int, ttl: TimeToLive | None) -> list[PutItem]:
        """Items to put."""
        ...

    def awaited(self, take: Callable[[], list[Item]], timeout: float | None) -> list[Any]:
        """The values of what `take` gives, once that is something."""
        ...

    def awaited_items(self, take: Callable[[], list[Item]], timeout: float | None) -> list[Item]:
        """As `awaited`, the items as they are stored."""
        ...

    def is_there(self) -> bool:
        """Whether an item can be taken now."""
        ...

    def decoded(self, items: Iterable[Item]) -> list[Any]:
        """The values of items."""
        ...


class ClusterQueuePuts(BlockPuts):
    """The puts of one queue in a block. Every call raises `TransactionClosed` outside the block."""

    def __init__(self, changes: TransactionChanges, block: QueueBlock, target: BlockQueue) -> None:
        self._block_changes = changes
        self._block = block
        self._target = target

    def _put(self, items: Iterable[Any], priority: int, ttl: TimeToLive | None, delay: TimeToLive | None) -> None:
        self._block_changes.check_open()
        self._block.put(self._target.encoded(items, priority, ttl), delay_ms_of(delay))


class ClusterQueueInTransaction(ClusterQueuePuts):
    """The takes and puts of one queue in a block, on a thread."""

    def take(self, timeout: float | None = None) -> Any:
        """Take the first item: it is in flight until the end of the block. Waits, and raises `queue.Empty`, as `Queue.take`."""
        return first_of(self.take_many(1, timeout), self._target.name)

    def take_many(self, most: int, timeout: float | None = 0) -> list[Any]:
        """Take up to `most` items, as `Queue.take_many`: they are in flight until the end of the block."""
        self._block_changes.check_open()
        structure, number = self._target.structure, checked_number(most)
        return self._target.awaited(lambda: self._block.hold(structure, number, decodes=True), timeout)

    def hold(self, most: int, timeout: float | None = 0) -> list[Item]:
        """As `take_many`, the items as they are stored, also those whose codec is not registered here."""
        self._block_changes.check_open()
        structure, number = self._target.structure, checked_number(most)
        return self._target.awaited_items(lambda: self._block.hold(structure, number, decodes=False), timeout)


def commit_block(
    business: ClusterBusiness, block: QueueBlock, entries: list[Entry], contents: BlockContents | None = None
) -> int:
    """Commit a block with its changes of maps and contents; return the timestamp, 0 if it changes nothing. After an error that is
    not `CommitUnknown` the items are at their places.
    """
    latest = list({entry_identity(entry): entry for entry in entries}.values())
    try:
        checked_size(business, [*latest, *room_of(block.puts)])
    except BaseException as error:
        block.give_back(error)
        raise
    names_content = contents is not None and any(is_content(entry.key_class) for entry in latest)
    if block.has_changes or not (names_content or all(is_of_map(entry.key_class) for entry in latest)):
        return block.commit(latest, begun_ms=contents.begun_ms if contents is not None else 0)
    block.give_back()
    if contents is not None and names_content:
        return contents.commit(latest)
    return commit(business, latest) if latest else 0


class ClusterBlock:
    """A transaction over the structures of one business. If the block raises, nothing is written.

    Used by one thread, for one `with` block. `timestamp` is 0 until it is committed. If the process of the block says nothing for
    the visibility timeout, the commit raises `TransactionClosed`, and nothing of the block is written.
    """

    def __init__(self, business: ClusterBusiness, block: QueueBlock, contents: BlockContents | None = None) -> None:
        self.changes = TransactionChanges()
        self.timestamp = 0
        self._business = business
        self._block = block
        self._contents = contents

    def __enter__(self) -> Self:
        self.changes.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised. Then set `timestamp`."""
        entries = self.changes.end().entries
        if kind is not None:
            self._block.give_back(error)
        else:
            self.timestamp = commit_block(self._business, self._block, entries, self._contents)


class ClusterQueueTransaction(ClusterBlock, ClusterQueueInTransaction):
    """A transaction of one queue of a cluster."""

    def __init__(self, target: BlockQueue) -> None:
        block = target.block()
        ClusterBlock.__init__(self, target.business, block)
        ClusterQueueInTransaction.__init__(self, self.changes, block, target)
