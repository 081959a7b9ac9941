"""Values as a page shows them: JSON with its lines, text as it is, bytes as a dump; and the difference between two."""

from __future__ import annotations

import json
from difflib import unified_diff
from typing import NamedTuple

from kvwal.entry import DataEntry
from kvwal.sql.text import decoded, finite, key_label, label

MOST_SHOWN = 100_000
"""Characters of a value that a page shows."""
_MOST_COMPARED = 1_000
"""Lines of a value that is compared: the time grows with their square."""
_MOST_DUMPED = 4_096
_ROW = 16


class Line(NamedTuple):
    """A line of a difference: `added`, `gone`, `place` or `same`."""

    kind: str
    text: str


_KINDS = {"+": "added", "-": "gone", "@": "place"}


def whole_text(entry: DataEntry) -> str:
    """The value of an entry as lines of text."""
    if entry.deleted:
        return ""
    value = decoded(entry.value, entry.value_class)
    if isinstance(value, bytes):
        return _dump(value)
    if isinstance(value, str):
        return value
    return json.dumps(finite(value), ensure_ascii=False, indent=2, default=str)


def shown_text(entry: DataEntry) -> tuple[str, bool]:
    """What a page shows of a value, and whether that is all of it."""
    text = whole_text(entry)
    whole = len(text) <= MOST_SHOWN and not (entry.value_class == "bytes" and len(entry.value) > _MOST_DUMPED)
    return text[:MOST_SHOWN], whole


def _dump(data: bytes) -> str:
    rows = range(0, min(len(data), _MOST_DUMPED), _ROW)
    lines = (
        f"{row:08x}  {data[row : row + _ROW].hex(' '):<47}  "
        + "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data[row : row + _ROW])
        for row in rows
    )
    return "\n".join(lines)


def difference(before: DataEntry | None, after: DataEntry) -> list[Line] | None:
    """The lines that changed from one version of a value to the next, with some around them. None if they are too many."""
    old, new = ([] if entry is None else whole_text(entry).splitlines() for entry in (before, after))
    if max(len(old), len(new)) > _MOST_COMPARED:
        return None
    changed = list(unified_diff(old, new, lineterm="", n=2))[2:]
    return [Line(_KINDS.get(line[:1], "same"), line) for line in changed]


def key_text(entry: DataEntry) -> str:
    """A key as a page shows it; a text that is empty has quotes."""
    return key_label(entry.key, entry.key_class) or '""'


def value_label(entry: DataEntry) -> str:
    """A value in one line."""
    return "" if entry.deleted else label(entry.value, entry.value_class)
