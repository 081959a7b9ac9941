"""The tables of a statement: those that it names are made, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kvwal.sql.rows import CHANGES, HISTORY, LATEST, pieces, rows_of, rows_of_changes
from kvwal.sql.source import Source
from kvwal.sql.typed import TypedTable, dataset, open_records, typed_tables

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_PART = "part of a table"
Sources = Mapping[str, Source]
"""Sources by namespace. The name is empty if there is only one, whose tables then have no column `namespace`."""


def listed(sources: Sources) -> str:
    """A sentence that lists the tables."""
    businesses = _businesses(sources)
    typed = [name for business in businesses for name in _typed(business, businesses)]
    said = f"The businesses here: {', '.join(businesses) or 'none'}."
    return f"{said} Typed tables: {', '.join(typed)}." if typed else said


def load_tables(connection: duckdb.DuckDBPyConnection, sources: Sources, statement: str, opened: ExitStack) -> None:
    """Make the tables that the statement names. A business hides a history, or a typed table, of the same name.

    Typed tables read what `opened` holds open.
    """
    businesses = _businesses(sources)
    for business in businesses:
        having = {name: source for name, source in sources.items() if business in source.businesses()}
        if mentions(statement, business):
            _make_table(connection, business, LATEST, _latest(having, business))
        history = business + HISTORY
        if history not in businesses and mentions(statement, history):
            rows = ((name, rows_of_changes(source.changes(business))) for name, source in having.items())
            _make_table(connection, history, CHANGES, rows)
        typed = [table for name, table in _typed(business, businesses).items() if mentions(statement, name)]
        records = {
            name: opened.enter_context(open_records(source, business, typed))
            for name, source in having.items()
            if typed
        }
        for table in typed:
            parts = ((name, dataset(table, entries[table.name])) for name, entries in records.items())
            _make_view(connection, table.name, parts)


def mentions(statement: str, name: str) -> bool:
    """Whether the statement has this name as a whole word, in any case: DuckDB ignores the case of names."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", statement, re.IGNORECASE) is not None


def _businesses(sources: Sources) -> list[str]:
    return sorted({business for source in sources.values() for business in source.businesses()})


def _typed(business: str, businesses: Sequence[str]) -> dict[str, TypedTable]:
    """The typed tables of a business that no business hides."""
    return {name: table for name, table in typed_tables(business).items() if name not in businesses}


def _latest(sources: Mapping[str, Source], business: str) -> Iterator[tuple[str, pa.Table]]:
    """The live entries of a business, in pieces, each with its namespace."""
    for name, source in sources.items():
        for entries in pieces(source.entries(business)):
            yield name, rows_of(entries)


def _make_table(
    connection: duckdb.DuckDBPyConnection, name: str, columns: str, parts: Iterable[tuple[str, pa.Table]]
) -> None:
    """Make one table of DuckDB from its parts, each with its namespace. There is at least one part."""
    create = f'CREATE TABLE "{name}" AS'
    for namespace, rows in parts:
        connection.register(_PART, rows)
        connection.execute(f"{create} SELECT {_first_column(namespace)}{columns.format(rows=_PART)}")
        connection.unregister(_PART)
        create = f'INSERT INTO "{name}"'


def _make_view(connection: duckdb.DuckDBPyConnection, name: str, parts: Iterable[tuple[str, Any]]) -> None:
    """Make one view of DuckDB over its parts, each with its namespace. There is at least one part."""
    selects = []
    for number, (namespace, rows) in enumerate(parts):
        part = f"part {number} of {name}"
        connection.register(part, rows)
        selects.append(f'SELECT {_first_column(namespace)}* FROM "{part}"')
    connection.execute(f'CREATE VIEW "{name}" AS {" UNION ALL ".join(selects)}')


def _first_column(namespace: str) -> str:
    return f"'{namespace}' AS namespace, " if namespace else ""
