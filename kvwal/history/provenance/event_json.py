"""Events of provenance as JSON."""

from __future__ import annotations

from typing import Any

from kvwal.errors import CodecError
from kvwal.hlc import to_text
from kvwal.key_text import plain
from kvwal.structures.provenance.event import Event, EventItem


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
        "value": value_of(item),
    }


def value_of(item: EventItem) -> Any:
    """The value of an item, None where JSON has no form for it."""
    try:
        value = item.value
    except CodecError:
        return None
    return value if item.value_class in ("json", "str", "int", "float", "bool", "none") else None


def _plain(key: Any) -> Any:
    """A key as JSON has it. Positions of items are text."""
    key = plain(key)
    return str(key) if isinstance(key, bytes) or (isinstance(key, int) and abs(key) >= 1 << 53) else key
