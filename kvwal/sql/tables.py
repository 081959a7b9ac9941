"""The tables of a statement: those that it names are made, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvwal.sql.rows import CHANGES, HISTORY, LATEST, rows_of, rows_of_changes
from kvwal.sql.source import Source
from kvwal.sql.typed import TypedTable, dataset, read_records, typed_tables

if TYPE_CHECKING:
    import duckdb

Sources = Mapping[str, Source]
"""Sources by namespace. The name is empty if there is only one, whose tables then have no column `namespace`."""


def listed(sources: Sources) -> str:
    """A sentence that lists the tables."""
    businesses = _businesses(sources)
    typed = [name for business in businesses for name in _typed(business, businesses)]
    said = f"The businesses here: {', '.join(businesses) or 'none'}."
    return f"{said} Typed tables: {', '.join(typed)}." if typed else said


def load_tables(connection: duckdb.DuckDBPyConnection, sources: Sources, statement: str) -> None:
    """Make the tables that the statement names. A business hides a history, or a typed table, of the same name."""
    businesses = _businesses(sources)
    for business in businesses:
        having = {name: source for name, source in sources.items() if business in source.businesses()}
        if mentions(statement, business):
            rows = ((name, rows_of(source.entries(business))) for name, source in having.items())
            _make(connection, business, "TABLE", LATEST, rows)
        history = business + HISTORY
        if history not in businesses and mentions(statement, history):
            rows = ((name, rows_of_changes(source.changes(business))) for name, source in having.items())
            _make(connection, history, "TABLE", CHANGES, rows)
        typed = [table for name, table in _typed(business, businesses).items() if mentions(statement, name)]
        records = {name: read_records(source, business, typed) for name, source in having.items() if typed}
        for table in typed:
            parts = ((name, dataset(table, entries[table.name])) for name, entries in records.items())
            _make(connection, table.name, "VIEW", '* FROM "{rows}"', parts)


def mentions(statement: str, name: str) -> bool:
    """Whether the statement has this name as a whole word, in any case: DuckDB ignores the case of names."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", statement, re.IGNORECASE) is not None


def _businesses(sources: Sources) -> list[str]:
    return sorted({business for source in sources.values() for business in source.businesses()})


def _typed(business: str, businesses: Sequence[str]) -> dict[str, TypedTable]:
    """The typed tables of a business that no business hides."""
    return {name: table for name, table in typed_tables(business).items() if name not in businesses}


def _make(
    connection: duckdb.DuckDBPyConnection, name: str, what: str, columns: str, parts: Iterator[tuple[str, Any]]
) -> None:
    """Make one table or view of DuckDB from the rows of each namespace."""
    selects = []
    for number, (namespace, rows) in enumerate(parts):
        part = f"part {number} of {name}"
        connection.register(part, rows)
        prefix = f"'{namespace}' AS namespace, " if namespace else ""
        selects.append(f"SELECT {prefix}{columns.format(rows=part)}")
    connection.execute(f'CREATE {what} "{name}" AS {" UNION ALL ".join(selects)}')
