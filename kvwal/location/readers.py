"""Interfaces of an open location: what every kind of store can be asked, and what those that take writes can be told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from kvwal.entry import DataEntry
from kvwal.history.wanted import KeySpan
from kvwal.structures.map.map import Map
from kvwal.structures.map.reads import MapReads
from kvwal.structures.map.view import KeyBounds

WantedIdentity = Callable[[bytes, str], bool]
"""Whether a key is wanted, by its bytes and its class."""


class Reader(Protocol):
    """A location that is open for reading. The same data give the same answers from every kind of location.

    Every method that names a business raises `ConfigError`, with the names that are there, if the location has none of that name.
    """

    def map(self, name: str, /) -> MapReads:
        """All entries of a business as they are now, in the memory of this process. They are those of `scan`."""
        ...

    def at(self, business: str, timestamp: int) -> MapReads:
        """All entries of a business as they were at a timestamp, in the memory of this process: see `Map.at`.

        Raises `BeforeHistory` if its history does not reach back so far.
        """
        ...

    def businesses(self) -> list[str]:
        """Names of the existing businesses, sorted."""
        ...

    def lookup(self, business: str, key: Any) -> DataEntry | None:
        """As `find`, but the timestamp and the expiry are 0 where the memory of a cluster answered."""
        ...

    def find(self, business: str, key: Any) -> DataEntry | None:
        """The latest entry of a key, None if it is absent."""
        ...

    def scan(self, business: str, prefix: str | None = None) -> Iterator[DataEntry]:
        """As `entries`, but the timestamps and expiries are 0 where the memory of a cluster answered."""
        ...

    def entries(self, business: str, prefix: str | None = None) -> Iterator[DataEntry]:
        """The live entries of a business in key order, as a stream: all, or those whose text key begins with `prefix`."""
        ...

    def scan_within(
        self, business: str, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[DataEntry]:
        """As `scan`, of the keys within these bounds: in reverse order, and at most `limit` entries, if these are given.

        A reader of logs or objects keeps the entries of a reverse order in memory: at most `limit` if it is given.
        """
        ...

    def entries_within(
        self, business: str, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[DataEntry]:
        """As `entries`, of the keys within these bounds: see `scan_within`."""
        ...

    def select(self, business: str, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """As `entries`, of the keys that `wanted` accepts. A cluster sends the keys, and values of these keys only."""
        ...

    def scan_wanted(self, business: str, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """As `select`, but the timestamps and expiries are 0 where the memory of a cluster answered."""
        ...

    def scan_spans(self, business: str, spans: Sequence[KeySpan]) -> Iterator[DataEntry]:
        """As `scan`, of the text keys in these spans, which are sorted and apart: other entries are not sent, or not read."""
        ...

    def history(self, business: str, key: Any) -> list[DataEntry]:
        """Every change of a key that logs and archive hold, newest first. A warning is logged as by `Map.history`."""
        ...

    def sizes(self) -> dict[str, int | None]:
        """The bytes that each existing business has here, in the order of names: in its logs, or its objects in an archive.

        None where it is not known: in the memory of a cluster, and of a business whose folder this user may not read.
        """
        ...

    def count(self, business: str) -> int:
        """The number of keys of a business. Members of a cluster know it; of any other location all entries are read."""
        ...

    def stats(self) -> dict[str, Any]:
        """Figures of the store. JSON can hold them."""
        ...


def in_direction(entries: Iterable[DataEntry], reverse: bool, limit: int | None) -> Iterator[DataEntry]:
    """Sorted entries as a range gives them: see `Reader.scan_within`."""
    return reversed(deque(entries, limit)) if reverse else islice(entries, limit)


class Writer(Protocol):
    """A location that is open for writing."""

    def map(self, name: str, /) -> Map:
        """The map of a business. A business that does not exist begins with its first entry."""
        ...

    def businesses(self) -> list[str]:
        """Names of the existing businesses, sorted."""
        ...
