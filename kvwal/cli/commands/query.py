"""kvwal query: SQL, by DuckDB, over the latest state and the history of every business, and over Spark's records."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated, Any

import typer

from kvwal.cli import show
from kvwal.cli.options import ALL, Json, WideLogSelection
from kvwal.cli.show import Format
from kvwal.cli.tables import SAMPLE
from kvwal.cli.text import check_text, label
from kvwal.sql.engine import answered
from kvwal.sql.source import Source


def query(
    selection: WideLogSelection,
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
    with ExitStack() as stores, answered(sources(selection, stores), sql) as answer:
        if answer.columns:
            rows = ([plain(value) for value in row] for row in answer.rows(SAMPLE))
            show.rows(answer.columns, rows, Format.json if json else format)


def sources(selection: WideLogSelection, stores: ExitStack) -> dict[str, Source]:
    """The selected logs by namespace; the name is empty unless all namespaces were selected."""
    namespaces = sorted({place.namespace for place in selection.logs()})
    opened = {name: stores.enter_context(replace(selection, namespace=name).reader()) for name in namespaces}
    return {name if selection.namespace == ALL else "": store.source() for name, store in opened.items()}


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
