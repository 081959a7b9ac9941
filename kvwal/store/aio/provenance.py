"""The provenance of a business, for tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from kvwal.store.aio.structure import AsyncStructure
from kvwal.structures.business import LocalBusiness
from kvwal.structures.provenance.event import Event
from kvwal.structures.provenance.provenance import Provenance as SyncProvenance
from kvwal.structures.provenance.provenance import switched_on
from kvwal.structures.provenance.questions import MOST
from kvwal.structures.provenance.state import ProvenanceOptions

T = TypeVar("T")


class Provenance(AsyncStructure):
    """The events of a business: see `kvwal.structures.provenance.provenance.Provenance`. The first call switches it on.

    Each call runs on a thread, because events are read from files. A call that is cancelled goes on there.
    """

    def __repr__(self) -> str:
        return f"<Provenance of {self._name!r} of {self._store!r}>"

    async def events(
        self,
        key: Any = None,
        *,
        of: str | None = None,
        type: str | None = None,
        component: str | None = None,
        after: int | date | None = None,
        before: int | date | None = None,
        attributes: dict[str, Any] | None = None,
        text: str | None = None,
        limit: int | None = MOST,
    ) -> list[Event]:
        """The events for which all of this holds, newest first, at most `limit` of them."""
        return await self._do(
            lambda provenance: provenance.events(
                key, of=of, type=type, component=component, after=after, before=before,
                attributes=attributes, text=text, limit=limit,
            )
        )  # fmt: skip

    async def find(self, id: str) -> Event:
        """The event of this `Event.id`. Raises `ConfigError` if there is none."""
        return await self._do(lambda provenance: provenance.find(id))

    async def lineage(
        self, key: Any, *, of: str | None = None, up: bool = True, down: bool = True, depth: int | None = None
    ) -> list[Event]:
        """The events that made an item, and those of what was made of it; oldest first."""
        return await self._do(lambda provenance: provenance.lineage(key, of=of, up=up, down=down, depth=depth))

    async def send(self, key: Any, to: str, *, of: str = "", **details: str) -> int:
        """Say that an item was sent to an address. Returns the timestamp of the event."""
        return await self._do(lambda provenance: provenance.send(key, to, of=of, **details))

    async def receive(self, key: Any, source: str, *, of: str = "", **details: str) -> int:
        """Say that an item was received from an address. Returns the timestamp of the event."""
        return await self._do(lambda provenance: provenance.receive(key, source, of=of, **details))

    async def record(self, type: str, key: Any, *, of: str = "", **details: str) -> int:
        """Say what is no change: `send`, `receive` or `fetch`."""
        return await self._do(lambda provenance: provenance.record(type, key, of=of, **details))

    async def replay(self, event: Event) -> int:
        """Put the item of an event again. Returns the timestamp. Raises `ContentGone`."""
        return await self._do(lambda provenance: provenance.replay(event))

    async def options(self) -> ProvenanceOptions:
        """Whether events are made, and how long they are kept."""
        return await self._do(SyncProvenance.options)

    async def set_options(
        self,
        *,
        on: bool | UnsetType = UNSET,
        keep_seconds: float | UnsetType | None = UNSET,
        keep_bytes: int | UnsetType | None = UNSET,
    ) -> ProvenanceOptions:
        """Store these options, and return all."""
        return await self._do(
            lambda provenance: provenance.set_options(on=on, keep_seconds=keep_seconds, keep_bytes=keep_bytes),
            switches_on=False,
        )

    async def _do(self, call: Callable[[SyncProvenance], T], *, switches_on: bool = True) -> T:
        business = await self._open_business()

        def do() -> T:
            provenance = SyncProvenance(business, self._store)
            return call(switched_on(provenance) if switches_on and not business.makes_events else provenance)

        return await self._on_thread(do)

    async def _open_business(self) -> LocalBusiness:
        return await self._find_business()
