"""Entries of events that cannot be decoded, of a newer kvwal or by a fault of one: they are told of, and passed over."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import msgspec

from kvwal.entry import DataEntry, Entry
from kvwal.errors import CodecError
from kvwal.history.provenance.tables import tables_of
from kvwal.ports.logger import get_logger
from kvwal.structures.provenance.event import Event, events_of

UNREADABLE = (
    msgspec.MsgspecError, struct.error, CodecError, ValueError, IndexError, TypeError, OverflowError, AttributeError,
)  # fmt: skip
"""What the decoder of an entry, or the index of its events, may raise for bytes that are none."""


def decoded(entry: Entry | DataEntry) -> list[Event] | None:
    """The events of an entry; None if it cannot be decoded."""
    try:
        events = list(events_of(entry))
    except UNREADABLE:
        return None
    return events if all(event.record.before or event.record.after for event in events) else None


def sorted_out(entries: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The entries whose events can be decoded and indexed, and the others."""
    readable: list[Entry] = []
    others: list[Entry] = []
    for entry in entries:
        try:
            tables_of(events_of(entry))
        except UNREADABLE:
            others.append(entry)
        else:
            readable.append(entry)
    return readable, others


def readable_events(entries: Iterable[Entry | DataEntry], place: object) -> Iterator[Event]:
    """The events of these entries. One that cannot be decoded is left out, and logged with `place`: where it is."""
    for entry in entries:
        events = decoded(entry)
        if events is None:
            get_logger(__name__).warning(
                "an event of provenance cannot be decoded and is left out of this answer",
                place=str(place), timestamp=str(entry.timestamp), key=entry.key.hex(),
            )  # fmt: skip
            continue
        yield from events
