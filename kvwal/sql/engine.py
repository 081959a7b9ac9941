"""The engine of SQL: one statement, run by DuckDB, over the tables that it names.

A business is the table of its name, and `<business>_history` has every change that log and archive hold. The records of Spark
have typed tables beside them. Only tables that the statement names are loaded, and of typed tables only the columns that it
needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvwal.errors import ConfigError
from kvwal.ports.disk import scratch_folder
from kvwal.sql.tables import Sources, listed, load_tables

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MEMORY_LIMIT = "512MiB"
"""DuckDB's memory for tables and answers. What does not fit goes to temporary files."""


class Answer:
    """The answer of DuckDB to one statement, read before its connection is closed."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, statement: str) -> None:
        import duckdb

        (parsed,) = connection.extract_statements(statement)
        self._connection = connection
        self._statement = statement
        self._is_select = parsed.type == duckdb.StatementType.SELECT
        self._relation: Any = connection.sql(
            statement
        )  # only a SELECT waits until its rows are read; all others run here

    @property
    def columns(self) -> list[str]:
        """Names of the columns; none if the statement has no answer."""
        return [] if self._relation is None else list(self._relation.columns)

    def rows(self, at_once: int) -> Iterator[tuple[Any, ...]]:
        """The rows, fetched `at_once` at a time, so that a long answer needs little memory."""
        if self._relation is not None and not self._is_select:
            yield from self._relation.fetchall()
        elif self._relation is not None:
            answer = self._connection.execute(self._statement)
            while batch := answer.fetchmany(at_once):
                yield from batch

    def table(self) -> pa.Table:
        """The rows as a table of Arrow. Sums of longs are longs, as far as all of a column's fit."""
        import pyarrow as pa

        return pa.table({}) if self._relation is None else _with_longs(self._relation.to_arrow_table())


@contextmanager
def answered(sources: Sources, statement: str) -> Iterator[Answer]:
    """Run one statement, and yield its answer.

    Raises `ConfigError` for a statement that DuckDB refuses, and for several statements, of which none is run.
    """
    import duckdb

    try:
        with scratch_folder() as scratch, ExitStack() as opened, duckdb.connect(config=_config(scratch)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            _check_one(connection, statement)
            load_tables(connection, sources, statement, opened)
            yield Answer(connection, statement)
    except duckdb.Error as error:
        raise ConfigError(str(error).splitlines()[0], hint=listed(sources)) from error


def _config(scratch: Path) -> dict[str, Any]:
    """DuckDB's settings: it sees no variables of Python, and puts into `scratch` what exceeds `MEMORY_LIMIT`."""
    return {
        "python_enable_replacements": "false",
        "temp_directory": str(scratch),
        "memory_limit": MEMORY_LIMIT,
    }


def _check_one(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    count = len(connection.extract_statements(statement))
    if count != 1:
        raise ConfigError(f"the SQL has {count} statements.", hint="Give one; nothing was run.")


def _with_longs(table: pa.Table) -> pa.Table:
    """The table with longs in place of 128-bit integers, which DuckDB makes of sums of longs. A column that needs more stays."""
    import pyarrow as pa

    for number, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and (field.type.precision, field.type.scale) == (38, 0):
            try:
                longs = table.column(number).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(number, field.name, longs)
    return table
