"""A cluster or an archive as SQL reads it: of a cluster only the keys that the statement asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.objects import open_objects
from archive.registry import registered
from kvwal.cli.locations import StoreSelection
from kvwal.cli.text import label
from kvwal.errors import ConfigError
from kvwal.history.wanted import Wanted
from kvwal.location.key_filter import key_filter
from kvwal.location.parse import ArchiveLocation
from kvwal.location.readers import Reader
from kvwal.sql.changes import archived_changes
from kvwal.sql.rows import HISTORY
from kvwal.sql.source import Entries

if TYPE_CHECKING:
    import pyarrow as pa


class LocationSource:
    """The businesses of one namespace of an open location. See `kvwal.sql.source.Source`."""

    def __init__(self, selection: StoreSelection, store: Reader, statement: str) -> None:
        """`store` is the location that `selection` names. Entries whose keys `statement` does not ask for may be missing."""
        self._selection = selection
        self._store = store
        self._statement = statement

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
        return self._store.select(business, lambda key, key_class: keys.accepts(label(key, key_class)))

    def wanted_entries(self, business: str, wanted: Wanted) -> Entries:
        """See `Source.wanted_entries`."""
        return self._store.select(business, lambda key, key_class: key_class == "str" and bool(wanted(key)))

    def changes(self, business: str) -> pa.Table:
        """See `Source.changes`. Raises `ConfigError` for a cluster, whose changes are in many logs."""
        selection, location = self._selection, self._selection.parsed()
        if isinstance(location, ArchiveLocation):
            objects = open_objects(location.url)
            places = registered(objects, selection.namespace, selection.cluster, business)
            return archived_changes(objects, [place for place in places if selection.node in (None, place.node)])
        raise ConfigError(
            f"{selection.location}: a cluster gives no table of all changes ({business}{HISTORY}).",
            hint="Query the archive of the cluster for them, or see one key with `kvwal history`.",
        )
