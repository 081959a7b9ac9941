"""Interfaces of an open location: `LocationReader` for every kind of store, `LocationWriter` for the writable ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Protocol

from kvwal.entry import DataEntry, Entry
from kvwal.sql.source import Source
from kvwal.store.reading.business_reader import BusinessReader
from kvwal.structures.business import Memory
from kvwal.structures.map.map import Map
from kvwal.structures.map.view import KeyBounds


class LocationReader(Protocol):
    """A location that is open for reading: a `ReadOnlyStore`, a cluster, an archive, or one of them at an earlier moment."""

    def businesses(self) -> list[str]:
        """Names of the existing businesses, sorted."""
        ...

    def read_business(self, name: str, *, logged: bool = False) -> BusinessReader:
        """The reads of one business. Raises `ConfigError`, with the names that are there, if the location has none of that name.

        With `logged`, timestamps and expiries are those of the logs. Without it they are 0 where the memory of a cluster answers,
        which takes less time.
        """
        ...

    def sizes(self) -> dict[str, int | None]:
        """Bytes of each existing business, sorted by name: the size of its logs, or of its objects in an archive.

        None where it is not known: in the memory of a cluster, and of a business whose folder this user may not read.
        """
        ...

    def source(self, statement: str = "") -> Source:
        """The businesses as SQL reads them. Entries that `statement` does not ask for may be missing."""
        ...

    def stats(self) -> dict[str, Any]:
        """Figures of the store. JSON can hold them."""
        ...


class MemoryReader(BusinessReader):
    """Reads of a business from memory: the memory of a cluster or of this process."""

    def __init__(self, memory: Memory, public: Callable[[Entry], DataEntry] = Entry.public) -> None:
        """`public` gives an entry of the memory as callers see it."""
        self._public = public
        self._memory = memory

    def find(self, key_class: str, key: bytes) -> DataEntry | None:
        """See `BusinessReader.find`."""
        entry = self._memory.lookup(key_class, key)
        return None if entry is None else self._public(entry)

    def entries(self, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.entries`."""
        found = self._memory.all_ordered() if prefix is None else self._memory.ordered("str", prefix.encode())
        return map(self._public, found)

    def within(self, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.within`."""
        return map(self._public, islice(self._memory.between(bounds, reverse=reverse), limit))

    def count(self) -> int:
        """See `BusinessReader.count`."""
        return self._memory.count()


class LocationWriter(Protocol):
    """A location that is open for writing."""

    def map(self, name: str, /) -> Map:
        """The map of a business. A business that does not exist begins with its first entry."""
        ...

    def businesses(self) -> list[str]:
        """Names of the existing businesses, sorted."""
        ...
