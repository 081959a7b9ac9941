"""Items of queues in the data source: their columns, and conditions on these columns as ranges of keys.

The key of an item is its priority and position as one number, so for a priority a range of positions is a range of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import IntegerType, LongType, StringType, StructField

from kvwal.history.reads.structure_rows import ALL_QUEUES
from kvwal.structures.queue.positions import LAST_POSITION, is_of_queue, item_class, key_of
from kvwal_archive.parquet.key_ranges import KeyRange, class_range

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

PLACE_FIELDS = [
    StructField("structure", StringType()),
    StructField("priority", IntegerType()),
    StructField("position", LongType()),
]
_EQUAL = ("EqualTo", "EqualNullSafe")
_PRIORITIES = range(-32, 32)
"""Those that a key of 64 bits has room for: more than there are, because a later version may have more."""
Bounds = tuple[int, int]
"""The least and the greatest number."""


def item_ranges(filters: Sequence[Filter], structure: str) -> Sequence[KeyRange]:
    """The identities that items within these conditions can have, sorted. It may have more: Spark applies the conditions again.

    Of all queues together the conditions on the place help only beside one on the column `structure`: the names are not known.
    """
    classes = _classes(filters, structure)
    if classes is None:
        return (KeyRange(),)
    priorities = _within(filters, "priority", (_PRIORITIES[0], _PRIORITIES[-1]))
    positions = _within(filters, "position", (0, LAST_POSITION))
    if priorities is None and positions is None:
        return [class_range(name) for name in classes]
    low, high = priorities or (_PRIORITIES[0], _PRIORITIES[-1])
    first, last = positions or (0, LAST_POSITION)
    return [
        KeyRange((name, key_of(priority, first)), (name, key_of(priority, last) + b"\0"))
        for name in classes
        for priority in (range(low, high + 1) if first <= last else ())
    ]


def _classes(filters: Sequence[Filter], structure: str) -> list[str] | None:
    """The key classes of the queues that are read, sorted; None if they are not known."""
    if structure != ALL_QUEUES:
        return [item_class(structure)]
    chosen: set[str] | None = None
    for kind, value in _conditions(filters, "structure"):
        if kind in (*_EQUAL, "In"):
            found = {name for name in (value if kind == "In" else [value]) if isinstance(name, str)}
            chosen = found if chosen is None else chosen & found
    return None if chosen is None else sorted(name for name in map(item_class, chosen) if is_of_queue(name))


def _within(filters: Sequence[Filter], column: str, limits: Bounds) -> Bounds | None:
    """The limits, and within them the conditions on a column; None without a condition."""
    bounded = False
    least, greatest = limits
    for kind, value in _conditions(filters, column):
        low, high = _bounds(kind, value)
        bounded = bounded or low is not None or high is not None
        least = least if low is None else max(least, low)
        greatest = greatest if high is None else min(greatest, high)
    return (least, greatest) if bounded else None


def _conditions(filters: Sequence[Filter], column: str) -> list[tuple[str, Any]]:
    """The kinds and values of the conditions on a column."""
    return [
        (type(condition).__name__, getattr(condition, "value", None))
        for condition in filters
        if getattr(condition, "attribute", ()) == (column,)
    ]


def _bounds(kind: str, value: Any) -> tuple[int | None, int | None]:
    """The least and the greatest number that fulfil a condition; None for no bound."""
    if kind == "In":
        numbers = [number for number in value if type(number) is int]
        return (min(numbers), max(numbers)) if numbers else (None, None)
    if type(value) is not int:
        return None, None
    if kind in _EQUAL:
        return value, value
    if kind in ("GreaterThan", "GreaterThanOrEqual"):
        return value + (kind == "GreaterThan"), None
    if kind in ("LessThan", "LessThanOrEqual"):
        return None, value - (kind == "LessThan")
    return None, None
