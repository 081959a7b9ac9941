"""The page of SQL: a box for a statement, its rows, and a chart of a numeric column."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from kvwal.console.pages.pictures import Point, Scale, nice_ceiling, trend
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Row, Table
from kvwal.console.pages.texts import count, short
from kvwal.console.queries.question import Answered
from kvwal.console.storepages.frame import Asked

ROWS_SHOWN = 200
_NUMERIC = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE",
    "DECIMAL",
)  # fmt: skip
"""The beginnings of DuckDB's types of numbers."""
_MOST_POINTS = 200


def sql_page(asked: Asked, statement: str, found: Answered | None, error: str) -> Shown:
    """The page of a statement, with its answer or the sentence of its error."""
    values: dict[str, Any] = {
        "title": "SQL", "statement": statement or "SELECT 1", "error": error, "found": found, "shown": ROWS_SHOWN,
        "command": asked.command("query", statement, *asked.at_words()) if statement else "", "at": asked.text("at"),
        "numeric": [], "chart": "", "picture": Markup(""), "arrow": "",
    }  # fmt: skip
    if found is None:
        return Shown("store_sql.html", values)
    columns, rows = table_of(found)
    table = Table("rows", "Rows", columns, rows[:ROWS_SHOWN], "The statement has no row.", every=lambda: rows)
    numeric = [name for name, kind in zip(found.columns, found.types, strict=True) if kind.startswith(_NUMERIC)]
    chosen = asked.text("chart") if asked.text("chart") in numeric else ""
    values |= {
        "numeric": numeric, "chart": chosen, "picture": _chart(found, chosen) if chosen else Markup(""),
        "arrow": "/api/kvwal/v1/sql" + asked.link({"form": "arrow", "chart": None, "format": None}),
    }  # fmt: skip
    return Shown("store_sql.html", values, [table])


def table_of(found: Answered) -> tuple[list[Column], list[Row]]:
    """Columns and rows of an answer. Columns of one name are told apart by their number."""
    keys = [
        name if found.columns.count(name) == 1 else f"{name}.{place}" for place, name in enumerate(found.columns, 1)
    ]
    columns = [
        Column(key, key, "right" if kind.startswith(_NUMERIC) else "text")
        for key, kind in zip(keys, found.types, strict=True)
    ]
    return columns, [Row(dict(zip(keys, row, strict=True))) for row in found.rows]


def _chart(found: Answered, name: str) -> Markup:
    """The values of a column in the order of the rows. What is no number, or below zero, is not drawn."""
    place = found.columns.index(name)
    numbers = [_number(row[place]) for row in found.rows[:_MOST_POINTS]]
    points = [
        Point(index, number, f"row {index + 1}: {number:,.6g}", colour="c1")
        for index, number in enumerate(numbers)
        if number is not None and number >= 0
    ]
    if not points:
        return Markup("")
    top = nice_ceiling(max(point.value for point in points))
    scale = Scale(top, (short(top), short(top / 2), "0"))
    return trend(points, scale, ("row 1", f"row {count(len(numbers))}"), f"{name} by row")


def _number(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
