"""kvwal query: SQL, by DuckDB, over the latest state and the history of every business, and over Spark's records."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archive.objects import open_objects
from archive.registry import registered
from kvwal.cli import show
from kvwal.cli.locations import StoreSelection, WideStoreSelection
from kvwal.cli.options import ALL, Json
from kvwal.cli.show import Format
from kvwal.cli.tables import SAMPLE
from kvwal.cli.text import check_text, label
from kvwal.location.parse import ArchiveLocation
from kvwal.location.sql_source import LocationSource, no_changes
from kvwal.sql.changes import archived_changes
from kvwal.sql.engine import answered
from kvwal.sql.source import Source

if TYPE_CHECKING:
    import pyarrow as pa


def query(
    selection: WideStoreSelection,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement, in DuckDB's SQL.", show_default=False)],
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    json: Json = False,
) -> None:
    """Run a SQL query: each business is a table, and BUSINESS_history has its changes.

    Columns: key, value (JSON), key_class, value_class, timestamp, time, expires, raw (the bytes); a history has deleted, node and
    sequence too. Spark's records have typed tables: spark_apps, spark_jobs, spark_stages, spark_sql, spark_executors,
    spark_streams, spark_batches, spark_reads_writes, spark_settings. With --namespace '*' the first column is namespace.
    """
    check_text("the SQL", sql)
    with ExitStack() as stores, answered(sources(selection, sql, stores), sql) as answer:
        if answer.columns:
            rows = ([plain(value) for value in row] for row in answer.rows(SAMPLE))
            show.rows(answer.columns, rows, Format.json if json else format)


def sources(selection: StoreSelection, sql: str, stores: ExitStack) -> dict[str, Source]:
    """The selected part of the location by namespace; the name is empty unless all namespaces were selected."""
    folder = selection.folder()
    if folder is not None:
        names = sorted({place.namespace for place in folder.logs()})
        opened = {name: stores.enter_context(replace(folder, namespace=name).open(read_only=True)) for name in names}
        return {name if selection.namespace == ALL else "": store.source() for name, store in opened.items()}
    if selection.namespace != ALL:
        return {"": LocationSource(stores.enter_context(selection.reader()), sql, partial(changes, selection))}
    names = sorted({name for business in selection.businesses() for name in selection.namespaces(business)})
    parts = {name: replace(selection, namespace=name) for name in names}
    return {
        name: LocationSource(stores.enter_context(part.reader()), sql, partial(changes, part))
        for name, part in parts.items()
    }


def changes(selection: StoreSelection, business: str) -> pa.Table:
    """Every change that an archive has of a business. Raises `ConfigError` for a cluster, whose changes are in many logs."""
    location = selection.parsed()
    if isinstance(location, ArchiveLocation):
        objects = open_objects(location.url)
        places = registered(objects, selection.namespace, selection.cluster, business)
        return archived_changes(objects, [place for place in places if selection.node in (None, place.node)])
    raise no_changes(selection.location, business)


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
