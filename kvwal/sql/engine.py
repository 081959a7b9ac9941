"""The engine of SQL: one statement, run by DuckDB, over the tables that it names.

A business is the table of its name, and `<business>_history` has every change that log and archive hold. The records of Spark
have typed tables beside them. Only tables that the statement names are loaded, and of typed tables only the columns that it
needs. `kvwal.sql.names` says which names there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvwal.errors import ConfigError
from kvwal.ports.disk import scratch_folder
from kvwal.ports.tasks import interruptible
from kvwal.sql.statements import check_reads, only_reads
from kvwal.sql.tables import Sources, listed, load_tables

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MEMORY_LIMIT = "512MiB"
"""DuckDB's memory for tables and answers. What does not fit goes to temporary files."""
_QUOTES = "Text stands in single quotes; a name with other characters than letters, digits and _ in double quotes."
_FIELDS = (
    "Text stands in single quotes, and a field of a value is value->>'field'. `DESCRIBE` lists the columns of a table."
)
_CASTS = "A field of a value is text; (value->>'field')::BIGINT is a number."
_CONFINED = (
    "autoload_known_extensions = false", "autoinstall_known_extensions = false", "allow_community_extensions = false",
    "allow_persistent_secrets = false", "max_temp_directory_size = '2GiB'", "enable_external_access = false",
    "lock_configuration = true",
)  # fmt: skip
"""Settings of a statement whose author may not read what this process may."""
_NO_ROWS = ["Success"]
"""Columns of DuckDB's answer to a statement that has no rows."""


class QueryResult:
    """The answer of DuckDB to one statement, read before its connection is closed."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, statement: str) -> None:
        import duckdb

        (parsed,) = connection.extract_statements(statement)
        self._connection = connection
        self._statement = statement
        self._is_select = parsed.type == duckdb.StatementType.SELECT
        # A SELECT waits until its rows are read; all others run here.
        self._relation: Any = self._run(partial(connection.sql, statement))
        if getattr(self._relation, "columns", _NO_ROWS) == _NO_ROWS:  # CREATE TABLE … AS PIVOT …
            raise only_reads("CREATE")

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._relation.columns)

    def rows(self, at_once: int) -> Iterator[tuple[Any, ...]]:
        """The rows, fetched `at_once` at a time, so that a long answer needs little memory."""
        if not self._is_select:
            yield from self._run(self._relation.fetchall)
            return
        answer = self._run(partial(self._connection.execute, self._statement))
        while batch := self._run(partial(answer.fetchmany, at_once)):
            yield from batch

    @property
    def types(self) -> list[str]:
        """DuckDB's types of the columns."""
        return [str(kind) for kind in self._relation.types]

    def table(self, most: int | None = None) -> pa.Table:
        """The rows as a table of Arrow, `most` of them at the most. Sums of longs are longs, as far as all of a column's fit."""
        relation = self._relation if most is None else self._relation.limit(most)
        return _with_longs(self._run(relation.to_arrow_table))

    def _run(self, call: Callable[[], Any]) -> Any:
        """The result of a call of DuckDB, which Ctrl-C ends. DuckDB waits for its own threads without looking at signals."""
        return interruptible(call, self._connection.interrupt)


@contextmanager
def answered(sources: Sources, statement: str, *, confined: bool = False) -> Iterator[QueryResult]:
    """Run one statement, and yield its answer.

    Raises `ConfigError` for a statement that DuckDB refuses, for one that does not read, and for several, of which none is run.
    With `confined`, DuckDB reads the tables and nothing else: no file, no address, no extension, no secret of this user.
    """
    import duckdb

    try:
        with scratch_folder() as scratch, ExitStack() as opened, duckdb.connect(config=_config(scratch)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            check_reads(connection, statement)
            load_tables(connection, sources, statement, opened)
            for setting in _CONFINED if confined else ():
                connection.execute(f"SET {setting}")
            yield QueryResult(connection, statement)
    except duckdb.Error as error:
        raise _refused(error, sources) from error


def _refused(error: duckdb.Error, sources: Sources) -> ConfigError:
    """The error for a statement that DuckDB refuses: the first line of DuckDB's, and the next step for this kind of error."""
    import duckdb

    first, *others = str(error).splitlines()
    what = f"{first.rstrip(':')}': {others[0]}" if first.endswith(":") and others else first
    what = what if what.endswith((".", "!", "?")) else f"{what}."
    if isinstance(error, duckdb.ParserException):
        return ConfigError(what, hint=_QUOTES)
    if isinstance(error, duckdb.BinderException) and "Referenced column" in what:
        return ConfigError(what, hint=_FIELDS)
    if isinstance(error, duckdb.BinderException) and "explicit" in what:
        return ConfigError(what, hint=_CASTS)
    return ConfigError(what, hint=listed(sources) if isinstance(error, duckdb.CatalogException) else "")


def _config(scratch: Path) -> dict[str, Any]:
    """DuckDB's settings: it sees no variables of Python, and puts into `scratch` what exceeds `MEMORY_LIMIT`."""
    return {
        "python_enable_replacements": "false",
        "temp_directory": str(scratch),
        "memory_limit": MEMORY_LIMIT,
    }


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
