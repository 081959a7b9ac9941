"""Tables with typed columns, of records of a known shape.

Records are decoded lazily, at DuckDB's scan, and only for the projected columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from kvwal.entry import DataEntry, Entry
from kvwal.history.reads.key_scan import KeySpan, Piece, Pieces
from kvwal.sql.filters import possible_values
from kvwal.sql.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

_MODULES = {"spark": "kvwal.spark.tables.catalogue", "openlineage": "kvwal.lineage.tables"}
"""Businesses whose records have a known shape, each with the module that has their tables.

The modules lie in a higher layer. They are imported when a statement is run on a store that has the business.
"""
RECORDS_AT_ONCE = 10_000


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

    def spans(self, values: Mapping[str, frozenset[Any]]) -> list[KeySpan] | None:
        """Key spans that contain every row whose columns have these values (predicate pushdown); None: scan all keys.

        A row must have one of the values in each of the columns.
        """
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


@contextmanager
def open_records(source: Source, business: str, tables: Sequence[TypedTable]) -> Iterator[dict[str, Pieces]]:
    """The entries of the records of each table, by its name: one moment for all tables."""
    patterns = sorted({table.keys.pattern for table in tables})
    matches_key = re.compile(b"|".join(b"(?:" + pattern + b")" for pattern in patterns)).search
    with source.open_wanted(business, matches_key) as pieces:
        yield {table.name: pieces if len(patterns) == 1 else _KeyFiltered(pieces, table.keys) for table in tables}


class _KeyFiltered:
    """Entries filtered by a pattern on their keys."""

    def __init__(self, pieces: Pieces, keys: re.Pattern[bytes]) -> None:
        self._pieces = pieces
        self._keys = keys

    def __iter__(self) -> Iterator[Piece]:
        return self._of(self._pieces)

    def within(self, spans: Sequence[KeySpan]) -> Iterable[Piece]:
        return self._of(self._pieces.within(spans))

    def _of(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            yield [entry for entry in piece if self._keys.search(entry.key)]


def read_table(table: TypedTable, pieces: Iterable[Piece], columns: Sequence[str]) -> pa.Table:
    """These columns of a table. Only about `RECORDS_AT_ONCE` records are in memory as objects of Python."""
    import pyarrow as pa

    return pa.concat_tables([table.read(entries, columns) for entries in _coalesced(pieces)])


def _coalesced(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The entries in larger pieces: at least one piece, of which the last may be empty."""
    coalesced: list[Entry | DataEntry] = []
    for piece in pieces:
        coalesced += piece
        if len(coalesced) >= RECORDS_AT_ONCE:
            yield coalesced
            coalesced = []
    yield coalesced


def dataset(table: TypedTable, pieces: Pieces) -> Any:
    """A dataset that decodes the records when DuckDB scans it."""
    return _dataset_class()(table, pieces)


@cache
def _dataset_class() -> Any:
    import pyarrow.dataset as ds

    class RecordDataset(ds.Dataset):  # type: ignore[misc]
        """The subset of pyarrow's Dataset that DuckDB calls: `schema` and `scanner`."""

        def __init__(self, table: TypedTable, pieces: Pieces) -> None:
            self._table = table
            self._pieces = pieces

        @property
        def schema(self) -> pa.Schema:
            return self._table.schema

        def scanner(self, columns: list[str] | None = None, filter: Any = None) -> Any:
            """A scanner with projection and filter pushdown.

            Columns that only the filter uses are found by name in the filter's text, which may read a column too many. Only key
            spans that can match the filter are read.
            """
            names = self._table.schema.names
            read = [name for name in names if columns is None or name in columns or name in str(filter)]
            spans = self._table.spans(possible_values(filter))
            pieces = self._pieces if spans is None else self._pieces.within(spans)
            rows = read_table(self._table, pieces, read)
            return ds.dataset(rows).scanner(columns=columns, filter=filter)

    return RecordDataset
