"""The structures of one business of a cluster: its maps, queues and contents, and transactions over several of them."""

from __future__ import annotations

from kvwal.client.cluster_business import ClusterBusiness
from kvwal.client.contents.calls import ContentCalls
from kvwal.client.contents.content import ClusterContents
from kvwal.client.contents.transaction import BlockContents, ClusterContentsInTransaction
from kvwal.client.queues.blocks import Renewals
from kvwal.client.queues.calls import QueueCalls
from kvwal.client.queues.named_map import ClusterNamedMap
from kvwal.client.queues.queue import ClusterQueue
from kvwal.client.queues.transaction import ClusterBlock, ClusterQueueInTransaction
from kvwal.cluster.queues.requests import OWNER_CLASS, OWNER_KEY, Queues
from kvwal.key_class import CONTENT
from kvwal.structures.content.names import contents_named
from kvwal.structures.handle import Handle
from kvwal.structures.map.map import Map, MapOfTransaction
from kvwal.structures.queue.positions import queue_named


class ClusterStructures(Handle):
    """A business of a cluster: see `kvwal.structures.facade.Structures`."""

    def __init__(
        self, business: ClusterBusiness, calls: QueueCalls, contents: ContentCalls, renewals: Renewals, own_map: Map
    ) -> None:
        self.business = business
        self.content_calls = contents
        self._calls = calls
        self._renewals = renewals
        self._own_map = own_map

    def __repr__(self) -> str:
        return f"<Business {self.business.label!r}>"

    @property
    def name(self) -> str:
        """The name of the business."""
        return self.business.name

    def map(self, name: str = "") -> Map:
        """The map `name` of the business; its own map, that of `ClusterStore.map`, without a name. Raises `InvalidName`."""
        found = self.map_in_block(name)
        if name:  # from now on the members know that the business is more than its own map
            self._calls.ask(Queues(self.business.name), writes=False)
        return found

    def map_in_block(self, name: str) -> Map:
        """As `map`, for a block: it tells the members by itself. Asks nobody."""
        return ClusterNamedMap(self.business, name) if name else self._own_map

    def queue(self, name: str = "") -> ClusterQueue:
        """The queue `name` of the business; its own, that of `ClusterStore.queue`, without a name. Raises `InvalidName`."""
        return ClusterQueue(self.business, self._calls, self._renewals, name)

    def content(self, name: str = "") -> ClusterContents:
        """The contents `name` of the business; its own, those of `ClusterStore.content`, without a name. Raises `InvalidName`."""
        return ClusterContents(self.business, self.content_calls, name)

    def contents(self) -> list[str]:
        """The names of the contents that hold something: see `kvwal.structures.facade.Structures.contents`."""
        return sorted(map(contents_named, self.business.state.structures_of(CONTENT)))

    def queues(self) -> list[str]:
        """The names of the queues that hold items: see `kvwal.structures.facade.Structures.queues`.

        No member is asked about a business that never had a queue: the question would write an owner record to its log.
        """
        if not self.has_queues():
            return []
        return sorted(map(queue_named, self._calls.ask(Queues(self.business.name), writes=False)))

    def has_queues(self) -> bool:
        """Whether the business ever had a queue. Nothing is written for the answer."""
        return self.business.state.lookup(OWNER_CLASS, OWNER_KEY) is not None

    def transaction(self) -> ClusterTransaction:
        """`with business.transaction() as t: t.map("state")["last"] = t.queue("todo").take()`: all of it, or nothing."""
        return ClusterTransaction(self)


class ClusterTransaction(ClusterBlock):
    """A transaction over a business of a cluster: see `kvwal.structures.facade.BusinessTransaction`."""

    def __init__(self, structures: ClusterStructures) -> None:
        self._claims = BlockContents(structures.content_calls)
        super().__init__(structures.business, structures.queue().block(), self._claims)
        self._structures = structures

    def map(self, name: str = "") -> MapOfTransaction:
        """A map in the block: what is put is there at its end, and a read in the block shows it."""
        return MapOfTransaction(self.changes, self._structures.map_in_block(name))

    def queue(self, name: str = "") -> ClusterQueueInTransaction:
        """A queue in the block: what is taken is in flight until its end."""
        return ClusterQueueInTransaction(self.changes, self._block, self._structures.queue(name))

    def content(self, name: str = "") -> ClusterContentsInTransaction:
        """Contents in the block: their bytes are put at once, their names are there at its end."""
        return ClusterContentsInTransaction(self.changes, self._structures.content(name), self._claims)
