"""The structures of one business: its maps, queues and contents, transactions over several of them, and their events."""

from __future__ import annotations

from typing import Any, Self

from kvwal.key_class import CONTENT, QUEUE
from kvwal.structures.business import LocalBusiness
from kvwal.structures.content.content import Contents
from kvwal.structures.content.names import contents_named
from kvwal.structures.content.transaction import ContentsInTransaction
from kvwal.structures.handle import Handle
from kvwal.structures.map.map import Map, MapOfTransaction
from kvwal.structures.map.named import NamedMap
from kvwal.structures.provenance.provenance import Provenance, said_of, switched_on
from kvwal.structures.provenance.said import component_note
from kvwal.structures.queue.positions import queue_named
from kvwal.structures.queue.queue import Queue
from kvwal.structures.queue.transaction import QueueInTransaction
from kvwal.structures.transaction import Transaction


def names_of_queues(business: LocalBusiness) -> list[str]:
    """The names of the queues of a business that hold something, sorted."""
    return sorted(map(queue_named, business.structures_of(QUEUE)))


def names_of_contents(business: LocalBusiness) -> list[str]:
    """The names of the structures of contents of a business that hold something, sorted."""
    return sorted(map(contents_named, business.structures_of(CONTENT)))


class Structures(Handle):
    """A business: one log, and so the boundary of a transaction. Its own map, queue and contents have no name."""

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

    def content(self, name: str = "") -> Contents:
        """The contents `name` of the business; its own, those of `Store.content`, without a name. Raises `InvalidName`."""
        return Contents(self._business, name, self._store)

    def queues(self) -> list[str]:
        """The names of the queues that hold items, sorted; the name of the business's own is empty. Items in flight count.

        Of a store that is only read, all items are read.
        """
        return names_of_queues(self._business)

    def contents(self) -> list[str]:
        """The names of the structures of contents that hold something, sorted; that of the business's own is empty."""
        return names_of_contents(self._business)

    def provenance(self, *, switches_on: bool = True) -> Provenance:
        """The events of the business: see `Provenance`. They are switched on, unless the store is only read."""
        provenance = Provenance(self._business, self._store)
        return provenance if self._business.makes_events or not switches_on else switched_on(provenance)

    def transaction(self, *, component: str = "") -> BusinessTransaction:
        """`with business.transaction() as t: t.map("state")["last"] = t.queue("todo").take()`: all of it, or nothing.

        `component` is what the events of the transaction say of who made it: see `provenance`.
        """
        return BusinessTransaction(self, component)


class BusinessTransaction(Transaction):
    """A transaction over maps, queues and contents of one business: after any crash all of its changes are there, or none."""

    def __init__(self, structures: Structures, component: str = "") -> None:
        super().__init__(structures._business)
        self._structures = structures
        self._component = component
        self._said = 0

    def __enter__(self) -> Self:
        super().__enter__()
        if self._component and self._structures._business.makes_events:
            self.changes.add([component_note(self._component)])
        return self

    def record(self, type: str, key: Any, *, of: str = "", **details: str) -> None:
        """Say what is no change, at the end of the block: see `Provenance.record`."""
        self.changes.check_open()
        self._said += 1
        self.changes.add([said_of(self._structures._business, type, key, of, details, self._said)])

    def map(self, name: str = "") -> MapOfTransaction:
        """A map in the block: what is put is there at its end, and a read in the block shows it."""
        return MapOfTransaction(self.changes, self._structures.map(name))

    def queue(self, name: str = "") -> QueueInTransaction:
        """A queue in the block: what is taken is in flight until its end."""
        return QueueInTransaction(self.changes, self._structures.queue(name))

    def content(self, name: str = "") -> ContentsInTransaction:
        """Contents in the block: bytes are written at once, and their names are there at its end."""
        return ContentsInTransaction(self.changes, self._structures.content(name))
