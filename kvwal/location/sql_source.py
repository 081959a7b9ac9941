"""A cluster or an archive as SQL reads it: of a cluster only the keys that the statement asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from kvwal.errors import ConfigError
from kvwal.history.wanted import KeySpan, Piece, Pieces, ReadPieces, Wanted
from kvwal.location.cluster import ClusterReader
from kvwal.location.key_filter import key_filter
from kvwal.location.readers import Reader
from kvwal.sql.rows import HISTORY
from kvwal.sql.source import Entries
from kvwal.sql.text import key_label

if TYPE_CHECKING:
    import pyarrow as pa


class LocationSource:
    """The businesses of one namespace of an open location. See `kvwal.sql.source.Source`."""

    def __init__(self, store: Reader, statement: str, changes: Callable[[str], pa.Table]) -> None:
        """Entries whose keys `statement` does not ask for may be missing. `changes` reads the changes of a business."""
        self._store = store
        self._statement = statement
        self._changes = changes

    @property
    def has_changes(self) -> bool:
        """See `Source.has_changes`. Those of a cluster are in many logs."""
        return not isinstance(self._store, ClusterReader)

    def businesses(self) -> list[str]:
        """See `Source.businesses`."""
        return self._store.businesses()

    def entries(self, business: str) -> Entries:
        """See `Source.entries`."""
        import duckdb

        with duckdb.connect() as connection:
            keys = key_filter(connection, self._statement, business)
        if keys is None:
            return self._store.entries(business)
        return self._store.select(business, lambda key, key_class: keys.accepts(key_label(key, key_class)))

    def open_wanted(self, business: str, wanted: Wanted) -> AbstractContextManager[Pieces]:
        """See `Source.open_wanted`."""
        return nullcontext(_WantedThere(self._store, business, wanted))

    def changes(self, business: str) -> pa.Table:
        """See `Source.changes`."""
        return self._changes(business)


class _WantedThere:
    """The text keys of an open location that are wanted, as `Pieces`. All of them are read once, when they are first iterated."""

    def __init__(self, store: Reader, business: str, wanted: Wanted) -> None:
        self._store = store
        self._business = business
        self._wanted = wanted
        self._read: Piece | None = None

    def __iter__(self) -> Iterator[Piece]:
        if self._read is None:
            wanted = self._wanted
            found = self._store.scan_wanted(self._business, lambda key, kind: kind == "str" and bool(wanted(key)))
            self._read = list(found)
        return iter([self._read])

    def within(self, spans: Sequence[KeySpan]) -> Iterable[Piece]:
        """See `Pieces.within`."""
        if self._read is not None:
            return ReadPieces(self._read).within(spans)
        entries = self._store.scan_spans(self._business, spans)
        return [[entry for entry in entries if self._wanted(entry.key)]]


def no_changes(location: str, business: str) -> ConfigError:
    """The error of a question for all changes of a business of a cluster, which are in many logs."""
    return ConfigError(
        f"{location}: a cluster gives no table of all changes ({business}{HISTORY}).",
        hint="Query the archive of the cluster for them, or see one key with `kvwal history`.",
    )
