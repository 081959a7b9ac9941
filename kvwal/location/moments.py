"""An open location as it was at an earlier moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING

from kvwal.entry import DataEntry
from kvwal.key_class import OWN_MAP
from kvwal.location.readers import LocationReader, MemoryReader
from kvwal.location.sql_source import LocationSource
from kvwal.store.contents.sources import StoredSource
from kvwal.store.reading.business_reader import BusinessReader, range_after
from kvwal.structures.business import Memory
from kvwal.structures.map.lazy_memory import LazyMemory
from kvwal.structures.map.view import KeyBounds
from kvwal.values.reader import StoredValues
from kvwal_archive.parquet.key_ranges import Identity, KeyRange, key_range, next_identity

if TYPE_CHECKING:
    import pyarrow as pa

_MORE_KEYS = 20
"""How many times as many keys the second range of a page has as the first one."""


class MomentReader:
    """A location as it was after all entries with timestamps up to `timestamp`. See `LocationReader`.

    Of a business what is asked for is read into memory. `BeforeHistory` is raised if its history does not reach back to
    that moment. Businesses that began later are there, and empty. Sizes and figures are those of now.
    """

    def __init__(self, store: LocationReader, timestamp: int, on_empty: Callable[[str], None] | None = None) -> None:
        """`on_empty` is called once with the name of each business that is read and had no entry: the moment may be mistyped."""
        self._store = store
        self._timestamp = timestamp
        self._on_empty = None if on_empty is None else cache(on_empty)
        self._read: dict[str, BusinessReader] = {}
        self.businesses = store.businesses
        self.sizes = store.sizes
        self.stats = store.stats

    def read_business(self, name: str, *, logged: bool = False) -> BusinessReader:
        """See `LocationReader.read_business`. Its entries always have the timestamps of the logs."""
        if name not in self._read:
            business = self._store.read_business(name)
            on_empty = None if self._on_empty is None else partial(self._on_empty, name)
            self._read[name] = _BusinessThen(name, business, self._timestamp, on_empty)
        return self._read[name]

    def source(self, statement: str = "") -> LocationSource:
        """See `LocationReader.source`. Its changes are those up to the moment."""
        now = self._store.source()

        def changes(business: str, structure: str) -> pa.Table:
            import pyarrow.compute as pc

            return now.changes(business, structure).filter(pc.field("timestamp") <= self._timestamp)

        return LocationSource(self, statement, changes, has_changes=now.has_changes)


class _BusinessThen(MemoryReader):
    """A business at an earlier moment. A key, or a range of keys, is read without the others."""

    def __init__(
        self, name: str, business: BusinessReader, timestamp: int, on_empty: Callable[[], None] | None
    ) -> None:
        values = StoredValues(name, lambda: business.content_source)
        super().__init__(LazyMemory(lambda: business.as_of(timestamp)), values.public)
        self._business = business
        self._timestamp = timestamp
        self._on_empty = on_empty

    def find(self, key_class: str, key: bytes) -> DataEntry | None:
        """See `BusinessReader.find`."""
        then = self._business.as_of(self._timestamp, within=key_range(key_class, key))
        entry = then.lookup(key_class, key)
        return None if entry is None else self._public(entry)

    def entries(self, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.entries`."""
        self._check_not_empty()
        return super().entries(prefix)

    def within(self, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.within`."""
        span = bounds.identities()
        if span is None:
            self._check_not_empty()
            return super().within(bounds, reverse=reverse, limit=limit)
        then = self._business.as_of(self._timestamp, within=KeyRange(*span))
        if not then.count():
            self._check_not_empty()
        return map(self._public, islice(then.between(bounds, reverse=reverse), limit))

    def page(self, bounds: KeyBounds, after: Identity | None, limit: int) -> list[DataEntry]:
        """See `BusinessReader.page`. The map of now mostly has the same keys, so a page of it gives the key up to which the map
        of then is read. If that has too few entries, a larger page does, and in the end the whole rest is read.
        """
        low, high = range_after(bounds, after)
        found: list[DataEntry] = []
        for keys in (limit, _MORE_KEYS * limit, 0):
            now = self._business.page(bounds, after, keys) if keys else []
            after = (now[-1].key_class, now[-1].key) if keys and len(now) == keys else None
            end = high if after is None else next_identity(after)
            found += map(self._public, self._business.as_of(self._timestamp, within=KeyRange(low, end)).all_ordered())
            if len(found) >= limit or end == high:
                break
            low = end
        return found[:limit]

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """See `BusinessReader.history`: the changes up to the moment."""
        return [entry for entry in self._business.history(key_class, key) if entry.timestamp <= self._timestamp]

    def content_structures(self) -> list[str]:
        """See `BusinessReader.content_structures`: those of now."""
        return self._business.content_structures()

    @property
    def content_source(self) -> StoredSource:
        """See `BusinessReader.content_source`."""
        return self._business.content_source.of_past()

    def as_of(self, timestamp: int, structure: str = OWN_MAP, within: KeyRange | None = None) -> Memory:
        """See `BusinessReader.as_of`. Later entries do not count."""
        return self._business.as_of(min(timestamp, self._timestamp), structure, within)

    def _check_not_empty(self) -> None:
        if self._on_empty is not None and not self._memory.count():
            self._on_empty()
