"""What DuckDB says of a statement before it is run: whether it only reads, and which tables it names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kvwal.errors import ConfigError

if TYPE_CHECKING:
    import duckdb

_READING = ("SELECT", "EXPLAIN", "MULTI")
"""DuckDB's types of the statements that read. SHOW, DESCRIBE and VALUES are of the type SELECT. PIVOT is MULTI."""
_CHANGING = ("INSERT_QUERY_NODE", "UPDATE_QUERY_NODE", "DELETE_QUERY_NODE", "MERGE_QUERY_NODE")
"""Nodes in DuckDB's tree of a SELECT whose WITH has a statement that changes rows."""


def check_reads(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Raise `ConfigError` unless the text is one statement that reads: any other would change nothing but DuckDB's own tables."""
    statements = connection.extract_statements(statement)
    if len(statements) != 1:
        raise ConfigError(f"the SQL has {len(statements)} statements.", hint="Give one; nothing was run.")
    name = statements[0].type.name
    if name not in _READING:
        raise only_reads(name)
    for node in nodes(tree(connection, statement)):
        if node.get("type") in _CHANGING:
            raise only_reads(str(node["type"]).removesuffix("_QUERY_NODE"))


def only_reads(name: str) -> ConfigError:
    """The error of a statement that does not read, with DuckDB's name of it."""
    return ConfigError(
        f"a query only reads, and this is the statement {name.replace('_', ' ')}; nothing was run.",
        hint="Change entries with `kvwal put`, `delete` and `import`, or with the map of a store."
        " Write files with `kvwal export`, or with `kvwal query --format csv`.",
    )


def written_names(connection: duckdb.DuckDBPyConnection, statement: str) -> frozenset[str] | None:
    """The names of tables in a statement, as they are written, without those of its own WITH. None if DuckDB cannot tell."""
    parsed = tree(connection, statement)
    if "statements" not in parsed:  # EXPLAIN, and PIVOT without IN
        return _table_names(connection, statement)
    within, written = set[str](), set[str]()
    for node in nodes(parsed):
        within |= {str(one["key"]).lower() for one in node.get("cte_map", {}).get("map", [])}
        if node.get("type") in ("BASE_TABLE", "SHOW_REF"):
            written.add(str(node["table_name"]))
    return frozenset(name for name in written if name.lower() not in within)


def names_no_table(connection: duckdb.DuckDBPyConnection, statement: str) -> bool:
    """Whether a statement reads no table but DuckDB's own, which list the others: SHOW TABLES, `information_schema.tables`.

    It is asked before the tables are made: DuckDB leaves out those that are there.
    """
    names = _table_names(connection, statement)
    return names is not None and not names


def _table_names(connection: duckdb.DuckDBPyConnection, statement: str) -> frozenset[str] | None:
    """The tables that DuckDB would need; None for a statement that it cannot bind without them."""
    import duckdb

    try:
        return frozenset(connection.get_table_names(statement))
    except duckdb.Error:
        return None


def tree(connection: duckdb.DuckDBPyConnection, statement: str) -> dict[str, Any]:
    """DuckDB's tree of a SELECT, whose `statements` it has; of other statements they are missing."""
    [[text]] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in a tree, from the outside to the inside."""
    if isinstance(tree, dict):
        yield tree
    for inner in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from nodes(inner)
