"""Spans of keys: where the records of a table are, by values of the columns that are in their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kvwal.history.reads.key_scan import KeySpan

APP, KEY = "app", "key"
"""Columns of every table that come from the key: the application, and the whole key."""
_MOST = 1_000
"""Spans of one question. For more of them a shorter part of the keys is used, or none."""
Part = tuple[str, Callable[[Any], str]]


class KeyLayout(NamedTuple):
    """The keys of a table: the application, `folder`, and `parts`, each a column and a function to its text in the key."""

    folder: str
    parts: tuple[Part, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns of `parts`."""
        return [column for column, _ in self.parts]

    def spans(self, values: Mapping[str, frozenset[Any]]) -> list[KeySpan] | None:
        """The spans of the keys of rows with one of these values in each of these columns, sorted and apart.

        None if the columns do not say where the keys are: neither `app` nor `key` is among them, or there are too many values.
        """
        if (keys := spans_of_keys(values)) is not None:
            return keys
        if APP not in values or len(values[APP]) > _MOST:
            return None
        stems = [f"{app}{self.folder}" for app in values[APP]]
        for column, text in self.parts:
            if column not in values or len(stems) * len(values[column]) > _MOST:
                return _apart(map(_under, stems))
            stems = [f"{stem}/{text(value)}" for stem in stems for value in values[column]]
        return _apart(map(_one_key, stems))


def spans_of_keys(values: Mapping[str, frozenset[Any]]) -> list[KeySpan] | None:
    """The spans of the keys that these values name, sorted and apart; None if they name none, or too many."""
    return _apart(map(_one_key, values[KEY])) if KEY in values and len(values[KEY]) <= _MOST else None


def spans_of_apps(values: Mapping[str, frozenset[Any]], span: Callable[[str], KeySpan]) -> list[KeySpan] | None:
    """As `KeyLayout.spans`, of keys that are apart by their applications alone: `span` has those of one."""
    if (keys := spans_of_keys(values)) is not None:
        return keys
    return _apart(map(span, values[APP])) if APP in values and len(values[APP]) <= _MOST else None


def _one_key(key: str) -> KeySpan:
    return key.encode(), key.encode() + b"\0"


def _under(stem: str) -> KeySpan:
    return f"{stem}/".encode(), f"{stem}0".encode()  # 0 follows the slash


def _apart(spans: Iterable[KeySpan]) -> list[KeySpan]:
    """The spans sorted, with those that overlap as one."""
    apart: list[KeySpan] = []
    for low, high in sorted(spans):
        if apart and low < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], high))
        else:
            apart.append((low, high))
    return apart
