"""Filters of a query as ranges of keys and of time, so that only objects and row groups that can hold its rows are read.

No filter is taken over: Spark applies all of them to the rows that it gets. So a range may be wider than its filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kvwal.history.reads.structure_rows import is_of_queues, selected_ranges
from kvwal.key_class import OWN_MAP
from kvwal.spark.datasource.items import item_ranges
from kvwal_archive.parquet.key_ranges import ABOVE_ALL, LEAST, KeyRange, class_range, intersect

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

TEXT = "str"
"""The class of keys whose column `key` is the key's own bytes. Of other classes every key may match a condition on the text."""
_TEXTS = class_range(TEXT)


class Wanted(NamedTuple):
    """Sorted ranges of identities, and the least and greatest timestamp (None: no limit), that a query can need."""

    ranges: tuple[KeyRange, ...] = (KeyRange(),)
    since: int = 0
    until: int | None = None


def wanted(filters: Iterable[Filter], structure: str = OWN_MAP) -> Wanted:
    """The ranges of these filters, which all hold for every row of the answer, within those of a structure."""
    filters = list(filters)
    ranges: Sequence[KeyRange] = (KeyRange(),) if structure == OWN_MAP else selected_ranges(structure)
    if is_of_queues(structure):
        ranges = sorted(intersect(ranges, item_ranges(filters, structure)))
    since, until = 0, None
    for condition in filters:
        kind, column = type(condition).__name__, getattr(condition, "attribute", ())
        value = getattr(condition, "value", None)
        if value is None:
            continue
        if column == ("key",) and (keys := _keys(kind, value)) is not None:
            others = [KeyRange(LEAST, _TEXTS.low), KeyRange(_TEXTS.high, ABOVE_ALL)]
            ranges = sorted(intersect(ranges, [*keys, *others]))
        elif column == ("key_class",) and kind in ("EqualTo", "EqualNullSafe", "In"):
            ranges = sorted(intersect(ranges, [class_range(name) for name in _values(kind, value)]))
        elif column == ("timestamp",) and kind in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
            since = max(since, value)
        if column == ("timestamp",) and kind in ("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual"):
            until = value if until is None else min(until, value)
    return Wanted(tuple(ranges), since, until)


def _keys(kind: str, value: Any) -> list[KeyRange] | None:
    """The ranges of text keys that fulfil a condition, None for a condition that has none."""
    if kind in ("EqualTo", "EqualNullSafe", "In"):
        texts = sorted({text.encode() for text in _values(kind, value)})
        return [KeyRange((TEXT, text), (TEXT, text + b"\0")) for text in texts]
    if not isinstance(value, str):
        return None
    text = value.encode()
    if kind in ("GreaterThan", "GreaterThanOrEqual"):
        return [KeyRange((TEXT, text), _TEXTS.high)]
    if kind in ("LessThan", "LessThanOrEqual"):
        return [KeyRange(_TEXTS.low, (TEXT, text + b"\0"))]
    if kind == "StringStartsWith" and text:
        return [KeyRange((TEXT, text), (TEXT, text[:-1] + bytes([text[-1] + 1])))]  # no byte of UTF-8 is 255
    return None


def _values(kind: str, value: Any) -> list[str]:
    values = value if kind == "In" else [value]
    return sorted({text for text in values if isinstance(text, str)})
