"""Interfaces of an open location: what every kind of store can be asked, and what those that take writes can be told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from kvwal.entry import DataEntry
from kvwal.history.wanted import KeySpan
from kvwal.structures.map import Map
from kvwal.structures.reads import MapReads

WantedIdentity = Callable[[bytes, str], bool]
"""Whether a key is wanted, by its bytes and its class."""


class Reader(Protocol):
    """A location that is open for reading. The same data give the same answers from every kind of location.

    Every method that names a business raises `ConfigError`, with the names that are there, if the location has none of that name.
    """

    def map(self, name: str, /) -> MapReads:
        """All entries of a business as they are now, in the memory of this process. They are those of `scan`."""
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
        """Every change of a key that logs and archive hold, newest first."""
        ...

    def stats(self) -> dict[str, Any]:
        """Figures of the store. JSON can hold them."""
        ...


class Writer(Protocol):
    """A location that is open for writing."""

    def map(self, name: str, /) -> Map:
        """The map of a business. A business that does not exist begins with its first entry."""
        ...

    def businesses(self) -> list[str]:
        """Names of the existing businesses, sorted."""
        ...
