"""A cluster or an archive as SQL reads it: of a cluster only the keys that the statement asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from kvwal.errors import ConfigError
from kvwal.history.reads.key_scan import KeySpan, Piece, Pieces, ReadPieces, Wanted
from kvwal.location.key_filter import key_filter
from kvwal.location.readers import LocationReader
from kvwal.sql.source import Entries
from kvwal.sql.text import key_label
from kvwal.store.reading.business_reader import BusinessReader
from kvwal.structures.provenance.query import EventSource

if TYPE_CHECKING:
    import pyarrow as pa


class LocationSource:
    """The businesses of one namespace of an open location. See `kvwal.sql.source.Source`."""

    def __init__(
        self,
        store: LocationReader,
        statement: str,
        changes: Callable[[str, str], pa.Table],
        *,
        has_changes: bool = True,
        events: Callable[[str], EventSource] | None = None,
    ) -> None:
        """Entries whose keys `statement` does not ask for may be missing. `changes` reads the changes of a business and a
        structure, and `has_changes` says whether it does so for the business's own map. `events` gives the events of provenance
        of a business; None: there are none here.
        """
        self._events = events
        self._store = store
        self._statement = statement
        self._changes = changes
        self.has_changes = has_changes

    def businesses(self) -> list[str]:
        """See `Source.businesses`."""
        return self._store.businesses()

    def entries(self, business: str) -> Entries:
        """See `Source.entries`."""
        import duckdb

        with duckdb.connect() as connection:
            keys = key_filter(connection, self._statement, business)
        logged = self._store.read_business(business, logged=True)
        if keys is None:
            return logged.entries()
        return logged.select(lambda key, key_class: keys.accepts(key_label(key, key_class)))

    def items(self, business: str, structure: str) -> Entries | None:
        """See `Source.items`."""
        return self._store.read_business(business, logged=True).of_structure(structure)

    def open_wanted(self, business: str, wanted: Wanted) -> AbstractContextManager[Pieces]:
        """See `Source.open_wanted`."""
        return nullcontext(_WantedThere(self._store.read_business(business), wanted))

    def changes(self, business: str, structure: str) -> pa.Table:
        """See `Source.changes`."""
        return self._changes(business, structure)

    def events(self, business: str) -> EventSource:
        """See `Source.events`."""
        if self._events is None:
            raise ConfigError(
                f"{business}/provenance: a cluster, and a store at an earlier moment, has no table of events.",
                hint="Read the folder of a store, or an archive, as they are now: its events have their times.",
            )
        return self._events(business)


class _WantedThere:
    """The text keys of an open location that are wanted, as `Pieces`. All of them are read once, when they are first iterated."""

    def __init__(self, business: BusinessReader, wanted: Wanted) -> None:
        self._business = business
        self._wanted = wanted
        self._read: Piece | None = None

    def __iter__(self) -> Iterator[Piece]:
        if self._read is None:
            wanted = self._wanted
            self._read = list(self._business.select(lambda key, kind: kind == "str" and bool(wanted(key))))
        return iter([self._read])

    def within(self, spans: Sequence[KeySpan]) -> Iterable[Piece]:
        """See `Pieces.within`."""
        if self._read is not None:
            return ReadPieces(self._read).within(spans)
        return [[entry for entry in self._business.spans(spans) if self._wanted(entry.key)]]
