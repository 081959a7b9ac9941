"""A business for tasks: its maps, queues and contents, and transactions over several of them."""

from __future__ import annotations

from typing import Any, Self

from kvwal.store.aio.content import Contents, ContentsInTransaction
from kvwal.store.aio.map import Map, MapOfTransaction, NamedMap
from kvwal.store.aio.provenance import Provenance
from kvwal.store.aio.queue import Queue, QueueInTransaction
from kvwal.store.aio.structure import AsyncStructure
from kvwal.store.aio.transaction import AsyncTransaction
from kvwal.structures.business import LocalBusiness
from kvwal.structures.facade import names_of_contents, names_of_queues
from kvwal.structures.provenance.provenance import said_of
from kvwal.structures.provenance.said import component_note


class Business(AsyncStructure):
    """A business: one log, and so the boundary of a transaction. Its own map, queue and contents have no name.

    It is opened at the first call, and may raise then what the synchronous `business` raises.
    """

    _business: LocalBusiness | None

    def __repr__(self) -> str:
        return f"<Business {self._name!r} of {self._store!r}>"

    @property
    def name(self) -> str:
        """The name of the business."""
        return self._name

    def map(self, name: str = "") -> Map:
        """The map `name` of the business; its own map, that of `Store.map`, without a name. Raises `InvalidName`."""
        if name:
            return NamedMap(self._store, self._name, name, self._flush)
        return Map(self._store, self._name, self._flush)

    def queue(self, name: str = "") -> Queue:
        """The queue `name` of the business; its own, that of `Store.queue`, without a name. Raises `InvalidName`."""
        return Queue(self._store, self._name, name, self._flush)

    def content(self, name: str = "") -> Contents:
        """The contents `name` of the business; its own, those of `Store.content`, without a name. Raises `InvalidName`."""
        return Contents(self._store, self._name, name, self._flush)

    async def queues(self) -> list[str]:
        """The names of the queues that hold items, sorted; the name of the business's own is empty. Items in flight count."""
        return names_of_queues(await self._open_business())

    async def contents(self) -> list[str]:
        """The names of the structures of contents that hold something, sorted; that of the business's own is empty."""
        business = await self._open_business()
        return await self._on_thread(lambda: names_of_contents(business))  # it may read them from the files of the log

    def provenance(self) -> Provenance:
        """The events of the business. The first call switches it on."""
        return Provenance(self._store, self._name, self._flush)

    def transaction(self, *, component: str = "") -> BusinessTransaction:
        """`async with business.transaction() as t: t.map("state")["last"] = await t.queue("todo").take()`: all, or nothing.

        `component` is what the events of the transaction say of who made it: see `provenance`.
        """
        return BusinessTransaction(self, component)

    async def _open_business(self) -> LocalBusiness:
        if self._business is None:
            self._business = await self._find_business()
        return self._business

    def _opened(self) -> LocalBusiness:
        if self._business is None:
            raise self._not_open()
        return self._business


class BusinessTransaction(AsyncTransaction):
    """A transaction over maps, queues and contents of one business: after any crash all of its changes are there, or none.

    See `AsyncTransaction`.
    """

    def __init__(self, business: Business, component: str = "") -> None:
        super().__init__(business)
        self._business = business
        self._component = component
        self._said = 0

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self._component and self._business._opened().makes_events:
            self.changes.add([component_note(self._component)])
        return self

    def record(self, type: str, key: Any, *, of: str = "", **details: str) -> None:
        """Say what is no change, at the end of the block: see `Provenance.record`."""
        self.changes.check_open()
        self._said += 1
        self.changes.add([said_of(self._business._opened(), type, key, of, details, self._said)])

    def map(self, name: str = "") -> MapOfTransaction:
        """A map in the block: what is put is there at its end, and a read in the block shows it."""
        self.changes.check_open()
        target = self._business.map(name)
        target._attach(self._business._opened())
        return MapOfTransaction(self.changes, target)

    def queue(self, name: str = "") -> QueueInTransaction:
        """A queue in the block: what is taken is in flight until its end."""
        self.changes.check_open()
        target = self._business.queue(name)
        target._attach(self._business._opened())
        return QueueInTransaction(self.changes, target)

    def content(self, name: str = "") -> ContentsInTransaction:
        """Contents in the block: bytes are written at once, and their names are there at its end."""
        self.changes.check_open()
        return ContentsInTransaction(self.changes, self._business.content(name)._attach(self._business._opened()))
