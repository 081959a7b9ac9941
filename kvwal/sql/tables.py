"""The tables of a statement: those that it names are made, and no other; for a list of tables all of them, without rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from kvwal.history.reads.structure_rows import is_of_queues, selected_rows
from kvwal.ports.logger import get_logger
from kvwal.sql.events import EVENTS, event_pieces
from kvwal.sql.names import MAIN, TableKind, TableName, hidden_by, placed, structure_tables, table_names, wanted
from kvwal.sql.rows import CHANGES, LATEST, LATEST_OF_CHANGES, PLACES, no_changes, pieces, rows_of, rows_of_changes
from kvwal.sql.source import Entries, Source
from kvwal.sql.statements import names_no_table, written_names
from kvwal.sql.typed import TypedTable, dataset, open_records

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_PART = "part of a table"
_COLUMNS = {TableKind.LATEST: LATEST, TableKind.CHANGES: CHANGES, TableKind.STRUCTURE: LATEST_OF_CHANGES}
Sources = Mapping[str, Source]
"""Sources by namespace. The name is empty if there is only one, whose tables then have no column `namespace`."""


class Part(NamedTuple):
    """Rows of a table that is made, their namespace, and what is selected of them."""

    namespace: str
    rows: pa.Table
    columns: str


def listed(sources: Sources) -> str:
    """A sentence that lists the tables."""
    businesses = _businesses(sources)
    typed = [table.name for table in _names(sources) if table.kind is TableKind.TYPED and table.schema == MAIN]
    said = f"The maps here: {', '.join(businesses) or 'none'}."
    return f"{said} Typed tables: {', '.join(typed)}." if typed else said


def load_tables(connection: duckdb.DuckDBPyConnection, sources: Sources, statement: str, opened: ExitStack) -> None:
    """Make the tables that the statement names; if it names none, make all of them without rows, for SHOW TABLES and the like.

    Typed tables read what `opened` holds open. Raises `ConfigError` where a name may be that of two tables. A warning is logged
    for a business that hides another table.
    """
    names = _names(sources)
    is_list = names_no_table(connection, statement)
    written = written_names(connection, statement)
    tables = [*wanted(names, statement, written), *structure_tables(_businesses(sources), written or ())]
    for table in tables:
        for sentence in hidden_by(table, names):
            get_logger(__name__).warning(sentence)
        if table.typed is None:
            _make_table(connection, table, _parts(_having(sources, table.business), table))
    for business in sorted({table.business for table in tables if table.typed is not None}):
        of_business = [table for table in tables if table.typed is not None and table.business == business]
        _make_views(connection, _having(sources, business), business, of_business, opened)
    if is_list:
        with_changes = all(source.has_changes for source in sources.values())
        others = [
            table for table in names if table not in tables and (with_changes or table.kind is not TableKind.CHANGES)
        ]
        _list_tables(connection, others, next(iter(sources), ""))


def _names(sources: Sources) -> list[TableName]:
    return table_names(_businesses(sources))


def _businesses(sources: Sources) -> list[str]:
    return sorted({business for source in sources.values() for business in source.businesses()})


def _having(sources: Sources, business: str) -> dict[str, Source]:
    return {name: source for name, source in sources.items() if business in source.businesses()}


def _parts(sources: Mapping[str, Source], table: TableName) -> Iterator[Part]:
    """The rows of a table in pieces."""
    places = is_of_queues(table.structure)
    for name, source in sources.items():
        if table.kind is TableKind.EVENTS:
            yield from (Part(name, rows, EVENTS) for rows in event_pieces(source.events(table.business)))
            continue
        entries = _entries(source, table)
        if entries is None:
            rows = selected_rows(source.changes(table.business, table.structure), table.structure)
            yield Part(name, rows_of_changes(rows, places=places), _COLUMNS[table.kind])
        else:
            for piece in pieces(entries):
                yield Part(name, rows_of(piece, places=places), LATEST)


def _entries(source: Source, table: TableName) -> Entries | None:
    """The latest entries of a table; None if they are to be found among the changes."""
    if table.kind is TableKind.LATEST:
        return source.entries(table.business)
    return source.items(table.business, table.structure) if table.kind is TableKind.STRUCTURE else None


def _make_table(connection: duckdb.DuckDBPyConnection, table: TableName, parts: Iterable[Part]) -> None:
    """Make one table of DuckDB from its parts, of which there is at least one."""
    where = _place(connection, table.schema, table.name)
    places = PLACES if is_of_queues(table.structure) else ""
    create = f"CREATE TABLE {where} AS"
    for namespace, rows, columns in parts:
        connection.register(_PART, rows)
        connection.execute(f"{create} SELECT {_first_column(namespace)}{places}{columns.format(rows=_PART)}")
        connection.unregister(_PART)
        create = f"INSERT INTO {where}"


def _make_views(
    connection: duckdb.DuckDBPyConnection,
    sources: Mapping[str, Source],
    business: str,
    tables: Sequence[TableName],
    opened: ExitStack,
) -> None:
    """Make the views of typed tables of one business, which show one moment."""
    typed: list[TypedTable] = [table.typed for table in tables if table.typed is not None]
    records = {name: opened.enter_context(open_records(source, business, typed)) for name, source in sources.items()}
    for table, shape in zip(tables, typed, strict=True):
        parts = ((name, dataset(shape, entries[shape.name])) for name, entries in records.items())
        _make_view(connection, table, parts)


def _make_view(connection: duckdb.DuckDBPyConnection, table: TableName, parts: Iterable[tuple[str, Any]]) -> None:
    """Make one view of DuckDB over its parts, each with its namespace. There is at least one part."""
    selects = []
    for number, (namespace, rows) in enumerate(parts):
        part = f"part {number} of {table.schema} {table.name}"
        connection.register(part, rows)
        selects.append(f'SELECT {_first_column(namespace)}* FROM "{part}"')
    where = _place(connection, table.schema, table.name)
    connection.execute(f"CREATE VIEW {where} AS {' UNION ALL '.join(selects)}")


def _list_tables(connection: duckdb.DuckDBPyConnection, names: Sequence[TableName], namespace: str) -> None:
    """Make tables without rows, with the columns of the tables of these names. Nothing is read.

    SHOW TABLES lists the schemas of the search path.
    """
    places = placed(names)
    columns = {kind: _columns(connection, rows, namespace, _COLUMNS[kind]) for kind, rows in _without_rows().items()}
    for schema in dict.fromkeys(schema for schema, _ in places):
        _make_schema(connection, schema)
    connection.begin()
    for schema, table in places:
        shape = table.typed
        of_it = columns[table.kind] if shape is None else _columns(connection, shape.schema.empty_table(), namespace)
        connection.execute(f'CREATE TABLE {schema}."{table.name}" ({of_it})')
    connection.commit()
    path = dict.fromkeys([MAIN, *(schema for schema, table in places if table.schema == MAIN)])
    connection.execute(f"SET search_path = '{','.join(path)}'")


def _without_rows() -> dict[TableKind, pa.Table]:
    return {TableKind.LATEST: rows_of([]), TableKind.CHANGES: no_changes()}


def _columns(connection: duckdb.DuckDBPyConnection, rows: pa.Table, namespace: str, of: str = '* FROM "{rows}"') -> str:
    """The columns of a table of such rows, as CREATE TABLE takes them."""
    connection.register(_PART, rows)
    made = connection.sql(f"SELECT {_first_column(namespace)}{of.format(rows=_PART)}")
    columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(made.columns, made.types, strict=True))
    connection.unregister(_PART)
    return columns


def _place(connection: duckdb.DuckDBPyConnection, schema: str, name: str) -> str:
    """The name of a table to be made, in a schema that is there."""
    _make_schema(connection, schema)
    return f'{schema}."{name}"'


def _make_schema(connection: duckdb.DuckDBPyConnection, schema: str) -> None:
    if schema != MAIN:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")


def _first_column(namespace: str) -> str:
    return f"'{namespace}' AS namespace, " if namespace else ""
