"""Tables with typed columns, of records of a known shape. Records are decoded when DuckDB reads them, and only in its columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from kvwal.entry import DataEntry, Entry
from kvwal.ports.locks import Lock
from kvwal.sql.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

_MODULES = {"spark": "kvwal.spark.tables.catalogue"}
"""Businesses whose records have a known shape, each with the module that has their tables.

The modules lie in a higher layer. They are imported when a statement names one of their tables, because most programs never do.
"""


class TypedTable(Protocol):
    """A table whose rows are records of one kind, or parts of such records."""

    @property
    def name(self) -> str:
        """Name of the table."""
        ...

    @property
    def keys(self) -> re.Pattern[bytes]:
        """A pattern that is found in the keys of these records."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        ...

    def read(self, entries: Sequence[Entry | DataEntry], columns: Iterable[str]) -> pa.Table:
        """These columns of the records, in the order of the entries. Raises `CodecError` for an entry that is no such record."""
        ...


def typed_tables(business: str) -> Mapping[str, TypedTable]:
    """The typed tables of a business by name; none if its records have no known shape."""
    if business not in _MODULES:
        return {}
    tables: Mapping[str, TypedTable] = import_module(_MODULES[business]).TABLES
    return tables


class RecordScan:
    """The records of some tables of one business, read from the source at the first use: one moment for all of them."""

    def __init__(self, source: Source, business: str, tables: Sequence[TypedTable]) -> None:
        self._source = source
        self._business = business
        self._tables = tables
        self._lock = Lock()
        self._entries: dict[str, list[Entry | DataEntry]] = {}

    def entries(self, table: TypedTable) -> Sequence[Entry | DataEntry]:
        """The entries of one table's records, in the order of their keys."""
        with self._lock:
            if not self._entries:
                self._entries = self._read()
        return self._entries[table.name]

    def _read(self) -> dict[str, list[Entry | DataEntry]]:
        patterns = {each.keys.pattern for each in self._tables}
        wanted = re.compile(b"|".join(b"(?:" + pattern + b")" for pattern in sorted(patterns))).search
        entries = list(self._source.wanted_entries(self._business, wanted))
        if len(patterns) == 1:
            return {each.name: entries for each in self._tables}
        return {each.name: [entry for entry in entries if each.keys.search(entry.key)] for each in self._tables}


def dataset(table: TypedTable, scan: RecordScan) -> Any:
    """A dataset that reads the records when DuckDB scans it."""
    return _dataset_class()(table, scan)


@cache
def _dataset_class() -> Any:
    import pyarrow.dataset as ds

    class RecordDataset(ds.Dataset):  # type: ignore[misc]
        """A dataset of pyarrow as far as DuckDB asks one: its schema, and a scanner of some columns and a filter."""

        def __init__(self, table: TypedTable, scan: RecordScan) -> None:
            self._table = table
            self._scan = scan

        @property
        def schema(self) -> pa.Schema:
            return self._table.schema

        def scanner(self, columns: list[str] | None = None, filter: Any = None) -> Any:
            """A scanner of these columns. A filter may name other columns; its text has the names of all of them."""
            names = self._table.schema.names
            read = [name for name in names if columns is None or name in columns or name in str(filter)]
            rows = self._table.read(self._scan.entries(self._table), read)
            return ds.dataset(rows).scanner(columns=columns, filter=filter)

    return RecordDataset
