"""The keys that a SQL query asks for, if its WHERE says so: then a cluster need not send the other entries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kvwal.sql.statements import nodes, tree

if TYPE_CHECKING:
    import duckdb

_WILDCARD = re.compile("[%_]")
_STARTS = ("starts_with", "prefix", "^@")


class KeyFilter(NamedTuple):
    """A condition on the text of a key: one of `texts`, or, if that is None, one that begins with `prefix`."""

    texts: frozenset[str] | None
    prefix: str = ""

    def accepts(self, text: str) -> bool:
        """Whether the condition holds."""
        return text in self.texts if self.texts is not None else text.startswith(self.prefix)


def key_filter(connection: duckdb.DuckDBPyConnection, sql: str, table: str) -> KeyFilter | None:
    """A condition that every row of `table` in the answer's source fulfils, None if the SQL has no such condition.

    It is found in a single SELECT from this one table whose WHERE is, or joins with AND, `key = 'text'`, `key IN (…)`,
    `key LIKE 'text%'` or `starts_with(key, 'text')`. In any other statement the table is read whole.
    """
    statements = tree(connection, sql).get("statements", [])
    if len(statements) != 1 or sum(_is_table(node, table) for node in nodes(statements)) != 1:
        return None
    select = statements[0].get("node", {})
    if select.get("type") != "SELECT_NODE" or not _is_table(select.get("from_table"), table):
        return None
    conditions = [_condition(part) for part in _joined(select.get("where_clause") or {})]
    return next((condition for condition in conditions if condition is not None), None)


def _is_table(node: Any, table: str) -> bool:
    named = isinstance(node, dict) and node.get("type") == "BASE_TABLE"
    return named and str(node.get("table_name", "")).lower() == table.lower()


def _joined(where: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if where.get("type") == "CONJUNCTION_AND":
        for part in where.get("children", []):
            yield from _joined(part)
    else:
        yield where


def _condition(part: dict[str, Any]) -> KeyFilter | None:
    if part.get("type") == "COMPARE_EQUAL":
        sides = [part.get("left", {}), part.get("right", {})]
        key, other = sides if _is_key(sides[0]) else sides[::-1]
        return _one_of([other]) if _is_key(key) else None
    if part.get("type") == "COMPARE_IN":
        key, *others = part.get("children", [{}])
        return _one_of(others) if _is_key(key) else None
    arguments = [argument.get("expression", argument) for argument in part.get("arguments", part.get("children", []))]
    if part.get("type") != "FUNCTION" or len(arguments) != 2 or not _is_key(arguments[0]):
        return None
    text = _text(arguments[1])
    if text is None:
        return None
    if part.get("function_name") == "~~":  # LIKE
        return KeyFilter(None, _WILDCARD.split(text)[0])
    return KeyFilter(None, text) if part.get("function_name") in _STARTS else None


def _one_of(nodes: list[dict[str, Any]]) -> KeyFilter | None:
    texts = [_text(node) for node in nodes]
    return None if None in texts else KeyFilter(frozenset(text for text in texts if text is not None))


def _is_key(node: dict[str, Any]) -> bool:
    return node.get("type") == "COLUMN_REF" and [*node.get("column_names", [])][-1:] == ["key"]


def _text(node: dict[str, Any]) -> str | None:
    """The text of a constant. DuckDB's versions write it in two ways."""
    if node.get("type") != "VALUE_CONSTANT":
        return None
    literal, value = node.get("literal"), node.get("value")
    if isinstance(literal, dict) and literal.get("kind") == "STRING":
        return str(literal["text"])
    if isinstance(value, dict) and value.get("type", {}).get("id") == "VARCHAR" and not value.get("is_null"):
        return str(value["value"])
    return None
