"""An open location as it was at an earlier moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from kvwal.entry import DataEntry
from kvwal.history.wanted import KeySpan
from kvwal.location.readers import Reader, WantedIdentity
from kvwal.structures.map.reads import MapReads
from kvwal.structures.map.view import KeyBounds


class MomentReader:
    """A location as it was after all entries with timestamps up to `timestamp`. See `Reader`.

    A business is read into memory when it is first asked for. `BeforeHistory` is raised if its history does not reach back to
    that moment. Businesses that began later are there, and empty.
    """

    def __init__(self, store: Reader, timestamp: int, on_empty: Callable[[str], None]) -> None:
        """`on_empty` is called with the name of a business that is read and had no entry: the moment may be mistyped."""
        self._store = store
        self._timestamp = timestamp
        self._on_empty = on_empty
        self._maps: dict[str, MapReads] = {}

    def at(self, business: str, timestamp: int) -> MapReads:
        """See `Reader.at`. Later entries do not count."""
        return self._store.at(business, min(timestamp, self._timestamp))

    def map(self, name: str, /) -> MapReads:
        """See `Reader.map`."""
        if name not in self._maps:
            self._maps[name] = self._store.at(name, self._timestamp)
        return self._maps[name]

    def businesses(self) -> list[str]:
        """See `Reader.businesses`."""
        return self._store.businesses()

    def lookup(self, business: str, key: Any) -> DataEntry | None:
        """See `Reader.lookup`."""
        return self.find(business, key)

    def find(self, business: str, key: Any) -> DataEntry | None:
        """See `Reader.find`."""
        return self.map(business).entry(key)

    def scan(self, business: str, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `Reader.scan`."""
        return self.entries(business, prefix)

    def entries(self, business: str, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `Reader.entries`."""
        return self._read(business).entries(prefix)

    def scan_within(
        self, business: str, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[DataEntry]:
        """See `Reader.scan_within`."""
        return self.entries_within(business, bounds, reverse=reverse, limit=limit)

    def entries_within(
        self, business: str, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[DataEntry]:
        """See `Reader.entries_within`."""
        return self._read(business).within(bounds, reverse=reverse, limit=limit)

    def select(self, business: str, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `Reader.select`."""
        return (entry for entry in self.entries(business) if wanted(entry.key, entry.key_class))

    def scan_wanted(self, business: str, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `Reader.scan_wanted`."""
        return self.select(business, wanted)

    def scan_spans(self, business: str, spans: Sequence[KeySpan]) -> Iterator[DataEntry]:
        """See `Reader.scan_spans`."""
        read = self._read(business)
        return chain.from_iterable(read.within(KeyBounds("str", low, high)) for low, high in spans)

    def history(self, business: str, key: Any) -> list[DataEntry]:
        """See `Reader.history`: the changes up to the moment."""
        return [entry for entry in self._store.history(business, key) if entry.timestamp <= self._timestamp]

    def sizes(self) -> dict[str, int | None]:
        """See `Reader.sizes`: as they are now."""
        return self._store.sizes()

    def count(self, business: str) -> int:
        """See `Reader.count`."""
        return len(self.map(business))

    def stats(self) -> dict[str, Any]:
        """See `Reader.stats`: as they are now."""
        return self._store.stats()

    def _read(self, business: str) -> MapReads:
        read = self.map(business)
        if not read:
            self._on_empty(business)
        return read
