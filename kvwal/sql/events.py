"""The table of the events of a business: `"<business>/provenance"`. Items and details are JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from kvwal.sql.text import encode_json, json_text, key_label
from kvwal.structures.provenance.event import Event, EventItem
from kvwal.structures.provenance.query import EventSource, question

if TYPE_CHECKING:
    import pyarrow as pa

EVENTS = """
    event, timestamp, make_timestamptz((timestamp >> 16) * 1000) AS time, node, type, component, structure, key,
    before::JSON AS before, after::JSON AS after, details::JSON AS details FROM "{rows}\""""
_PIECE = 10_000
"""Events of a piece."""
_NAMES = ("event", "timestamp", "node", "type", "component", "structure", "key", "before", "after", "details")


def event_pieces(source: EventSource) -> Iterator[pa.Table]:
    """All events as rows for `EVENTS`, newest first, in pieces; one empty piece if there are none."""
    found = iter(source.search(question()))
    yield rows_of_events(islice(found, _PIECE))
    while piece := list(islice(found, _PIECE)):
        yield rows_of_events(piece)


def rows_of_events(events: Iterable[Event]) -> pa.Table:
    """Events as rows for `EVENTS`."""
    import pyarrow as pa

    rows = list(map(_row, events))
    columns = zip(*rows, strict=True) if rows else ((),) * len(_NAMES)
    return pa.table(
        {
            name: pa.array(column, pa.int64() if name == "timestamp" else pa.string())
            for name, column in zip(_NAMES, columns, strict=True)
        }
    )


def _row(event: Event) -> tuple[Any, ...]:
    item = (event.record.after or event.record.before)[0]
    return (
        event.id, event.timestamp, event.node, event.type, event.component, event.structure,
        key_label(item.key, item.key_class), _items(event.befores), _items(event.afters), encode_json(event.details).decode(),
    )  # fmt: skip


def _items(items: list[EventItem]) -> str:
    return f"[{','.join(map(_item, items))}]"


def _item(item: EventItem) -> str:
    """An item as a JSON object. Its timestamp is text: it exceeds the numbers of JSON. A value that the event lacks is null."""
    entry = item.entry
    told = {
        "structure": item.structure, "key": key_label(entry.key, entry.key_class), "timestamp": str(entry.timestamp),
        "bytes": item.size,
    }  # fmt: skip
    value = json_text(entry.value, entry.value_class) if item.is_whole else "null"
    return f'{encode_json(told).decode()[:-1]},"value":{value}}}'
