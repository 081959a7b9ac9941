"""kvwal query: SQL, by DuckDB, over the latest state and the history of every business.

A business is the table of its name, and `<business>_history` has every change that log and archive hold. Only tables that the SQL
names are loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archive.layout import Place
from archive.merge import all_rows
from archive.objects import Objects, open_objects
from archive.reader import listed_again, read_rows
from archive.registry import registered
from archive.view import parts
from kvwal.cli import show
from kvwal.cli.locations import StoreSelection, WideStoreSelection
from kvwal.cli.options import ALL, Json
from kvwal.cli.show import Format
from kvwal.cli.tables import SAMPLE
from kvwal.cli.text import check_text, decoded, label, line
from kvwal.entry import TIME_MARK
from kvwal.errors import ConfigError
from kvwal.history.tail_reader import read_local
from kvwal.history.timeline import to_table
from kvwal.location.key_filter import KeyFilter, key_filter
from kvwal.location.parse import ArchiveLocation
from kvwal.ports.disk import OS_DISK

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

HISTORY = "_history"
_COLUMNS = """
    key, value::JSON AS value, key_class, value_class, timestamp, make_timestamp((timestamp >> 16) * 1000) AS time,
    CASE WHEN expires > 0 THEN make_timestamp(expires * 1000) END AS expires, raw"""
LATEST = _COLUMNS + ' FROM "{rows}"'
# A snapshot and the archive may both hold an entry; only the archive knows its sequence.
CHANGES = (
    _COLUMNS
    + """, deleted, node, CASE WHEN sequence > 0 THEN sequence END AS sequence FROM "{rows}"
    QUALIFY row_number() OVER (PARTITION BY node, key_class, key, timestamp ORDER BY "{rows}".sequence DESC) = 1"""
)


def query(
    selection: WideStoreSelection,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement, in DuckDB's SQL.", show_default=False)],
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    json: Json = False,
) -> None:
    """Run a SQL query: each business is a table, and BUSINESS_history has its changes.

    Columns: key, value (JSON), key_class, value_class, timestamp, time, expires, raw (the bytes); a history has deleted, node and
    sequence too. With --namespace '*' the first column is namespace.
    """
    import duckdb

    businesses = selection.businesses()
    check_text("the SQL", sql)
    try:
        with duckdb.connect() as connection:
            check_one(connection, sql)
            load_tables(connection, selection, businesses, sql)
            answer = connection.sql(sql)
            if answer is not None:
                form = Format.json if json else format
                show.rows(answer.columns, fetched(connection.execute(sql)), form)
    except duckdb.Error as error:
        tables = ", ".join(businesses) or "none"
        raise ConfigError(f"{str(error).splitlines()[0]}", hint=f"The businesses here: {tables}.") from error


def check_one(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise `ConfigError` unless the SQL is one statement."""
    count = len(connection.extract_statements(sql))
    if count != 1:
        raise ConfigError(f"the SQL has {count} statements.", hint="Give one; nothing was run.")


def fetched(answer: duckdb.DuckDBPyConnection) -> Iterator[list[Any]]:
    """The rows of an answer, fetched in batches, so that a long answer needs little memory."""
    while batch := answer.fetchmany(SAMPLE):
        yield from ([plain(value) for value in row] for row in batch)


def load_tables(
    connection: duckdb.DuckDBPyConnection, selection: StoreSelection, businesses: list[str], sql: str
) -> None:
    """Load the tables that the SQL names."""
    for business in businesses:
        if mentions(sql, business):
            make_table(connection, business, LATEST, latest(selection, business, key_filter(connection, sql, business)))
        history = business + HISTORY
        if history not in businesses and mentions(sql, history):
            make_table(connection, history, CHANGES, history_of(selection, business))


def mentions(sql: str, name: str) -> bool:
    """Whether the SQL has this name as a whole word, in any case: DuckDB ignores the case of names."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE) is not None


def make_table(
    connection: duckdb.DuckDBPyConnection, name: str, columns: str, parts: Iterable[tuple[str, pa.Table]]
) -> None:
    """Make one table of DuckDB from the rows of each namespace."""
    selects = []
    for number, (namespace, rows) in enumerate(parts):
        connection.register(f"part {number} of {name}", rows)
        prefix = f"'{namespace}' AS namespace, " if namespace else ""
        selects.append(f"SELECT {prefix}{columns.format(rows=f'part {number} of {name}')}")
    connection.execute(f'CREATE TABLE "{name}" AS {" UNION ALL ".join(selects)}')


def latest(selection: StoreSelection, business: str, keys: KeyFilter | None) -> Iterator[tuple[str, pa.Table]]:
    """The live entries of a business, for each namespace; the namespace is empty unless all were selected.

    Entries whose keys `keys` does not accept may be missing.
    """
    for namespace in selection.namespaces(business):
        with replace(selection, namespace=namespace).reader() as store:
            entries = (
                store.entries(business)
                if keys is None
                else store.select(business, lambda key, key_class: keys.accepts(label(key, key_class)))
            )
            names = ("key", "key_class", "value", "value_class", "timestamp", "expires")
            columns = zip(*([getattr(entry, name) for name in names] for entry in entries), strict=True)
            lists = dict(zip(names, map(list, columns), strict=False)) or {name: [] for name in names}
        yield namespace if selection.namespace == ALL else "", readable(lists)


def history_of(selection: StoreSelection, business: str) -> Iterator[tuple[str, pa.Table]]:
    """Every change of a business that the nodes' logs and the archive hold, newest first, for each namespace."""
    import pyarrow.compute as pc

    for namespace in selection.namespaces(business):
        rows = changes(replace(selection, namespace=namespace), business)
        rows = rows.filter(pc.not_equal(rows.column("key_class"), TIME_MARK))
        lists = {name: rows.column(name).to_pylist() for name in rows.column_names}
        yield namespace if selection.namespace == ALL else "", readable(lists)


def changes(selection: StoreSelection, business: str) -> pa.Table:
    """Every change of a business in one namespace. Raises `ConfigError` for a cluster, whose changes are in many logs."""
    location, folder = selection.parsed(), selection.folder()
    if folder is not None:
        places = folder.places(business)
        return all_rows(
            [*archived(folder.objects(), places), *((place.node, logged(folder.root, place)) for place in places)]
        )
    if isinstance(location, ArchiveLocation):
        objects = open_objects(location.url)
        places = registered(objects, selection.namespace, selection.cluster, business)
        return all_rows(archived(objects, [place for place in places if selection.node in (None, place.node)]))
    raise ConfigError(
        f"{selection.location}: a cluster gives no table of all changes ({business}{HISTORY}).",
        hint="Query the archive of the cluster for them, or see one key with `kvwal history`.",
    )


def archived(objects: Objects | None, places: list[Place]) -> list[tuple[str, pa.Table]]:
    """The archived rows of these logs: for each object of the archive, its node and its rows."""
    if objects is None or not places:
        return []
    first = places[0]
    nodes: dict[str, int | None] = {place.node: None for place in places}

    def read() -> list[tuple[str, pa.Table]]:
        archives = parts(objects, first.namespace, first.cluster, first.business, nodes)
        return [(part.place.node, read_rows(objects, info)) for part in archives for info in part.infos]

    return listed_again(read)


def logged(root: Path, place: Place) -> pa.Table:
    """The rows of one log's own files. An entry that only the snapshot holds has lost its sequence and gets a negative one."""
    local = read_local(OS_DISK, root, place)
    numbered = [(-1 - index, entry) for index, entry in enumerate(local.snapshot)] if local.tail.first > 1 else []
    numbered += enumerate(local.tail.entries, local.tail.first)
    return to_table(numbered)


def readable(lists: dict[str, list[Any]]) -> pa.Table:
    """A table of entries with the key as text, the value as JSON text, and the value's bytes as `raw`."""
    import pyarrow as pa

    lists = dict(lists)
    lists["raw"] = lists["value"]
    lists["value"] = [json_text(*pair) for pair in zip(lists["value"], lists["value_class"], strict=True)]
    lists["key"] = [label(*pair) for pair in zip(lists["key"], lists["key_class"], strict=True)]
    kinds = {
        "raw": pa.binary(),
        "timestamp": pa.int64(),
        "expires": pa.int64(),
        "sequence": pa.int64(),
        "deleted": pa.bool_(),
    }
    return pa.table({name: pa.array(column, kinds.get(name, pa.string())) for name, column in lists.items()})


def json_text(data: bytes, class_name: str) -> str | None:
    """A value as JSON text, for DuckDB's JSON functions; None for a delete, and for bytes, which JSON cannot hold."""
    if class_name == "json":
        return data.decode()
    value = decoded(data, class_name) if class_name else b""
    return None if isinstance(value, bytes) else line(value).decode()


def plain(value: Any) -> Any:
    """A value of DuckDB in a form that JSON and CSV can hold. A large integer becomes text, because JSON readers round it."""
    if isinstance(value, bytes):
        return label(value, "bytes")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 53:
        return str(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
