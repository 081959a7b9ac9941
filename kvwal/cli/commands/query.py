"""kvwal query: SQL, by DuckDB, over the latest state and the history of every map, and over Spark's records."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.locations import StoreSelection, WideStoreSelection
from kvwal.cli.options import ALL, At, Json
from kvwal.cli.show import Format
from kvwal.cli.tables import SAMPLE
from kvwal.cli.text import check_text
from kvwal.sql.engine import answered
from kvwal.sql.plain import plain
from kvwal.sql.source import Source


def query(
    selection: WideStoreSelection,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement, in DuckDB's SQL.", show_default=False)],
    at: At = None,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    json: Json = False,
) -> None:
    """Run a SQL query: each map is a table, and MAP_history has its changes.

    Columns: key, value (JSON), key_class, value_class, timestamp, time, expires, raw (the bytes); a history has deleted, node and
    sequence too. Spark's records have typed tables: spark_apps, spark_jobs, spark_stages, spark_rdds, spark_sql, spark_executors,
    spark_streams, spark_batches, spark_reads_writes, spark_settings. With --namespace '*' the first column is namespace.
    """
    check_text("the SQL", sql)
    with ExitStack() as stores, answered(sources(selection, sql, at, stores), sql) as answer:
        rows = ([plain(value) for value in row] for row in answer.rows(SAMPLE))
        show.rows(answer.columns, rows, Format.json if json else format)


def sources(selection: StoreSelection, sql: str, at: str | None, stores: ExitStack) -> dict[str, Source]:
    """The selected part of the location by namespace, now or at the typed time `at`. The name is empty unless all namespaces were
    selected.
    """
    folder = selection.folder()
    if folder is not None:
        names = sorted({place.namespace for place in folder.logs(closed=set())})
    elif selection.namespace == ALL:
        names = sorted({name for business in selection.businesses() for name in selection.namespaces(business)})
    else:
        selection.check_there()
        names = [selection.namespace]
    opened = {name: stores.enter_context(replace(selection, namespace=name).reader(at)) for name in names}
    return {name if selection.namespace == ALL else "": store.source(sql) for name, store in opened.items()}
