"""Notes: what a program says of a transaction, for its events. They are put into the transaction, and never logged.

A note is an entry of a class of its own. When the transaction has its place in the log, its events are made, and the notes are
left out of it.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from kvwal.entry import DataEntry, Entry, make_entry
from kvwal.log.submission import ENTRY_BYTES, cut
from kvwal.structures.provenance.record import EXPIRE, MSGPACK, Record, StoredRecord, short

NOTES = "provenance:_note"
"""The class of notes."""
_COMPONENT = b"component"
_PART_BYTES = 1 << 20


class Said(msgspec.Struct, array_like=True, frozen=True):
    """An event that a program says of an item, by the class and the bytes of its key. `was` are the items before, of a replay."""

    type: str
    key_class: str
    key: bytes
    details: dict[str, str] = {}
    was: list[DataEntry] = []


Noted: TypeAlias = tuple[str, list[Said]]
"""The component of a transaction, and the events that a program says of it."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Said).decode


def component_note(component: str) -> Entry:
    """The note that a component makes the transaction."""
    return Entry(_COMPONENT, NOTES, component.encode(), MSGPACK, False, 0)


def said_note(said: Said, number: int) -> Entry:
    """The note of an event. Each of a transaction has another number."""
    return Entry(b"said-%d" % number, NOTES, _encode(said), MSGPACK, False, 0)


def expiry_notes(expired: list[Entry]) -> list[list[Entry]]:
    """The notes of entries that expired, in transactions of a limited size."""
    small = [short(entry).public() for entry in expired]
    parts = cut(small, _PART_BYTES, lambda entry: len(entry.key) + len(entry.value) + ENTRY_BYTES)
    return [[said_note(Said(EXPIRE, "", b"", {}, part), 0)] for part in parts]


def take_notes(entries: list[Entry]) -> tuple[list[Entry], Noted]:
    """The entries of a transaction without the notes, and what the notes say."""
    component, said, others = "", list[Said](), list[Entry]()
    for entry in entries:
        if entry.key_class != NOTES:
            others.append(entry)
        elif entry.key == _COMPONENT:
            component = entry.value.decode()
        else:
            said.append(_decode(entry.value))
    return others, (component, said)


def as_stored(entry: DataEntry) -> Entry:
    """An entry of a record as one to log."""
    return make_entry(
        entry.key, entry.key_class, entry.value, entry.value_class, entry.deleted, entry.timestamp, entry.expires
    )


def as_record(stored: StoredRecord) -> Record:
    """A record that was read as one to log."""
    before, after = [*map(as_stored, stored.before)], [*map(as_stored, stored.after)]
    return Record(stored.type, stored.each, before, after, stored.component, stored.details)
