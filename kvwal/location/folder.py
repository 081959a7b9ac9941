"""A folder as a location: the logs under a root are read without their locks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvwal.entry import DataEntry
from kvwal.history.wanted import KeySpan
from kvwal.location.readers import WantedIdentity, in_direction
from kvwal.store.read_only import ReadOnlyBusiness
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.map.map import Map
from kvwal.structures.map.reads import MapReads
from kvwal.structures.map.view import KeyBounds


class FolderReader:
    """The logs of a root, merged over the nodes unless one was named. See `Reader`."""

    def __init__(self, store: ReadOnlyStore) -> None:
        self._store = store

    def map(self, name: str, /) -> Map:
        """See `Reader.map`."""
        return self._store.map(name)

    def at(self, business: str, timestamp: int) -> MapReads:
        """See `Reader.at`."""
        return self._store.map(business).at(timestamp)

    def businesses(self) -> list[str]:
        """See `Reader.businesses`."""
        return self._store.businesses()

    def lookup(self, business: str, key: Any) -> DataEntry | None:
        """See `Reader.lookup`."""
        return self._store.find(business, key)

    def find(self, business: str, key: Any) -> DataEntry | None:
        """See `Reader.find`."""
        return self._store.find(business, key)

    def scan(self, business: str, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `Reader.scan`."""
        return self.entries(business, prefix)

    def entries(self, business: str, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `Reader.entries`. With a prefix, only the blocks of its keys are read."""
        return self._store.in_order(business, prefix)

    def scan_within(
        self, business: str, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[DataEntry]:
        """See `Reader.scan_within`."""
        return self.entries_within(business, bounds, reverse=reverse, limit=limit)

    def entries_within(
        self, business: str, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[DataEntry]:
        """See `Reader.entries_within`. With bounds, only the blocks of these keys are read."""
        if (span := bounds.identities()) is None:
            return in_direction(self.entries(business), reverse, limit)
        return in_direction(self.business(business).between(*span), reverse, limit)

    def business(self, name: str) -> ReadOnlyBusiness:
        """See `ReadOnlyStore.business`."""
        return self._store.business(name)

    def select(self, business: str, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `Reader.select`."""
        return (entry for entry in self.entries(business) if wanted(entry.key, entry.key_class))

    def scan_wanted(self, business: str, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `Reader.scan_wanted`."""
        return self.select(business, wanted)

    def scan_spans(self, business: str, spans: Sequence[KeySpan]) -> Iterator[DataEntry]:
        """See `Reader.scan_spans`."""
        for low, high in spans:
            yield from self.business(business).between(("str", low), ("str", high))

    def history(self, business: str, key: Any) -> list[DataEntry]:
        """See `Reader.history`."""
        return self._store.history(business, key)

    def sizes(self) -> dict[str, int | None]:
        """See `Reader.sizes`."""
        return self._store.sizes()

    def count(self, business: str) -> int:
        """See `Reader.count`."""
        return sum(1 for _ in self.entries(business))

    def stats(self) -> dict[str, Any]:
        """See `Reader.stats`: the logs of the root, and the space on its disk."""
        return self._store.stats()
