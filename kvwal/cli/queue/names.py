"""Names of queues as they are typed and printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, overload

import kvwal
from kvwal.location.cluster import ClusterMaps
from kvwal.structures.queue.positions import queue_named, queue_structure
from kvwal.structures.queue.queue import Queue
from kvwal_archive.layout import check_name

if TYPE_CHECKING:
    from kvwal.client.queues.queue import ClusterQueue

AnyQueue: TypeAlias = "Queue | ClusterQueue"
"""The queue of a folder, or of a cluster."""


class QueueName(NamedTuple):
    """A queue as it is typed: `BUSINESS`, the business's own queue, or `BUSINESS/NAME`."""

    business: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.business}/{self.name}" if self.name else self.business

    @property
    def structure(self) -> str:
        """The structure of the queue in the log of its business."""
        return queue_structure(self.name)

    @overload
    def of(self, store: kvwal.Store) -> Queue: ...

    @overload
    def of(self, store: ClusterMaps) -> ClusterQueue: ...

    def of(self, store: kvwal.Store | ClusterMaps) -> AnyQueue:
        """The queue in an open store."""
        return store.business(self.business).queue(self.name)


def queue_name(typed: str | QueueName) -> QueueName:
    """The queue that was typed. Raises `InvalidName`."""
    if isinstance(typed, QueueName):
        return typed
    business, slash, name = typed.partition("/")
    return QueueName(check_name("business", business), check_name("queue", name) if slash else "")


def name_of(business: str, structure: str) -> QueueName:
    """The queue of a structure of a business."""
    return QueueName(business, queue_named(structure))


def names_of(business: str, structures: Iterable[str]) -> list[str]:
    """The queues of these structures as they are typed, sorted."""
    return [str(name) for name in sorted(name_of(business, structure) for structure in structures)]
