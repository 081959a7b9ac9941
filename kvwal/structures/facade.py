"""The structures of one business: its maps and queues, and transactions over several of them."""

from __future__ import annotations

from kvwal.key_class import QUEUE
from kvwal.structures.business import LocalBusiness
from kvwal.structures.handle import Handle
from kvwal.structures.map.map import Map, MapOfTransaction
from kvwal.structures.map.named import NamedMap
from kvwal.structures.queue.positions import queue_named
from kvwal.structures.queue.queue import Queue
from kvwal.structures.queue.transaction import QueueInTransaction
from kvwal.structures.transaction import Transaction


def names_of_queues(business: LocalBusiness) -> list[str]:
    """The names of the queues of a business that hold something, sorted."""
    return sorted(map(queue_named, business.structures_of(QUEUE)))


class Structures(Handle):
    """A business: one log, and so the boundary of a transaction. Its own map and its own queue have no name."""

    def __init__(self, business: LocalBusiness, store: object = None) -> None:
        self._business = business
        self._store = store

    def __repr__(self) -> str:
        return f"<Business {self.name!r}{f' of {self._store!r}' if self._store else ''}>"

    @property
    def name(self) -> str:
        """The name of the business."""
        return self._business.name

    def map(self, name: str = "") -> Map:
        """The map `name` of the business; its own map, that of `Store.map`, without a name. Raises `InvalidName`."""
        return NamedMap(self._business, name, self._store) if name else Map(self._business, self._store)

    def queue(self, name: str = "") -> Queue:
        """The queue `name` of the business; its own, that of `Store.queue`, without a name. Raises `InvalidName`."""
        return Queue(self._business, name, self._store)

    def queues(self) -> list[str]:
        """The names of the queues that hold items, sorted; the name of the business's own is empty. Items in flight count.

        Of a store that is only read, all items are read.
        """
        return names_of_queues(self._business)

    def transaction(self) -> BusinessTransaction:
        """`with business.transaction() as t: t.map("state")["last"] = t.queue("todo").take()`: all of it, or nothing."""
        return BusinessTransaction(self)


class BusinessTransaction(Transaction):
    """A transaction over maps and queues of one business: after any crash all of its changes are there, or none."""

    def __init__(self, structures: Structures) -> None:
        super().__init__(structures._business)
        self._structures = structures

    def map(self, name: str = "") -> MapOfTransaction:
        """A map in the block: what is put is there at its end, and a read in the block shows it."""
        return MapOfTransaction(self.changes, self._structures.map(name))

    def queue(self, name: str = "") -> QueueInTransaction:
        """A queue in the block: what is taken is in flight until its end."""
        return QueueInTransaction(self.changes, self._structures.queue(name))
