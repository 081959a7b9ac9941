"""Events as `kvwal provenance` prints them."""

from __future__ import annotations

from collections.abc import Sequence

from kvwal.cli import show
from kvwal.cli.tables import print_table
from kvwal.cli.text import line
from kvwal.history.provenance.event_json import as_json, value_of
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


def _key(event: Event) -> str:
    return str(plain(event.key))


def _items(items: Sequence[EventItem]) -> str:
    """The values of items in one cell, each cut to its beginning."""
    return " ".join(_short(item) for item in items[:3]) + (f" and {len(items) - 3:,} more" if items[3:] else "")


def _short(item: EventItem) -> str:
    value = value_of(item)
    if value is None and not item.is_whole:
        return f"({item.size:,} bytes)"
    text = value if isinstance(value, str) else line(value).decode().strip()
    return text if len(text) <= 40 else f"{text[:39]}…"
