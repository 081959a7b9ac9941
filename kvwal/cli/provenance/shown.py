"""Events as `kvwal provenance` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvwal.cli import show
from kvwal.cli.tables import print_table
from kvwal.cli.text import line
from kvwal.errors import CodecError
from kvwal.hlc import to_text
from kvwal.key_text import plain
from kvwal.structures.provenance.event import Event, EventItem

_COLUMNS = ["event", "time", "type", "key", "of", "component", "from", "to"]


def print_events(events: Sequence[Event], json: bool) -> None:
    """Print events: a row, or a line of JSON, for each."""
    if json:
        show.json_lines(map(as_json, events))
        return
    rows = (
        [
            event.id, to_text(event.timestamp), event.type, _key(event), event.structure or "map", event.component,
            _items(event.parents), _items(event.children),
        ]
        for event in events
    )  # fmt: skip
    print_table(_COLUMNS, rows)


def as_json(event: Event) -> dict[str, Any]:
    """The fields of an event, for a program. Timestamps and positions are text: they exceed the numbers of JSON."""
    return {
        "event": event.id,
        "time": to_text(event.timestamp),
        "timestamp": str(event.timestamp),
        "type": event.type,
        "key": _plain(event.key),
        "of": event.structure,
        "node": event.node,
        "component": event.component,
        "details": event.details,
        "before": [_item(item) for item in event.befores],
        "after": [_item(item) for item in event.afters],
    }


def _item(item: EventItem) -> dict[str, Any]:
    return {
        "of": item.structure,
        "key": _plain(item.key),
        "timestamp": str(item.timestamp),
        "bytes": item.size,
        "value": _value(item),
    }


def _value(item: EventItem) -> Any:
    try:
        value = item.value
    except CodecError:
        return None
    return value if item.value_class in ("json", "str", "int", "float", "bool", "none") else None


def _plain(key: Any) -> Any:
    """A key as JSON has it. Positions of items are text."""
    key = plain(key)
    return str(key) if isinstance(key, bytes) or (isinstance(key, int) and abs(key) >= 1 << 53) else key


def _key(event: Event) -> str:
    return str(plain(event.key))


def _items(items: Sequence[EventItem]) -> str:
    """The values of items in one cell, each cut to its beginning."""
    return " ".join(_short(item) for item in items[:3]) + (f" and {len(items) - 3:,} more" if items[3:] else "")


def _short(item: EventItem) -> str:
    value = _value(item)
    if value is None and not item.is_whole:
        return f"({item.size:,} bytes)"
    text = value if isinstance(value, str) else line(value).decode().strip()
    return text if len(text) <= 40 else f"{text[:39]}…"
