"""Lineage: from an item to those that it was made of, and to those that were made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvwal.entry import DataEntry
from kvwal.structures.provenance.event import Event
from kvwal.structures.provenance.query import EventSource, ItemId, question
from kvwal.structures.provenance.record import REPLAY


def follow(
    source: EventSource, last: Event, identity: tuple[str, bytes], *, up: bool, down: bool, depth: int | None
) -> list[Event]:
    """The events that made the item of this key in the event `last`, and those of what was made of it; oldest first."""
    found = {last}
    start = [item for item in _ids([*last.record.after, *last.record.before]) if item[:2] == identity][:1]
    if up:
        _walk(start, source.made, lambda event: _ids(event.record.before), depth, found)
    if down:
        replays: dict[ItemId, list[Event]] = {}
        for event in source.search(question(type=REPLAY)):
            for item in _ids(event.record.before):
                replays.setdefault(item, []).append(event)

        def ended(items: list[ItemId]) -> list[Event]:
            return source.ended(items) + [event for item in items for event in replays.get(item, [])]

        _walk(start, ended, lambda event: _ids(event.record.after), depth, found)
    return sorted(found, key=lambda event: event.place)


def _walk(
    start: Iterable[ItemId],
    events: Callable[[list[ItemId]], list[Event]],
    beyond: Callable[[Event], Iterable[ItemId]],
    depth: int | None,
    found: set[Event],
) -> None:
    """Collect the events of these items, of the items beyond them, and so on. Items are looked at once."""
    items, seen, steps = list(start), set[ItemId](), 0
    while items and (depth is None or steps < depth):
        steps += 1
        seen.update(items)
        there = events(items)
        found.update(there)
        items = list(dict.fromkeys(item for event in there for item in beyond(event) if item not in seen))


def _ids(entries: Iterable[DataEntry]) -> list[ItemId]:
    return [(entry.key_class, entry.key, entry.timestamp) for entry in entries]
