"""Records: events as the log stores them, all those of a transaction in one entry.

The key of the entry is the transaction's timestamp, the number of the entry among those of the transaction, and the node: no
other entry of any log of the business has it. The value is a MessagePack array of records. A record has the entries that an item
was before and is after; with `each`, it is an event for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

import msgspec

from kvwal.content.claim import claim_of
from kvwal.entry import DataEntry, Entry, class_of_bytes, is_claimed
from kvwal.key_class import EVENTS
from kvwal.log.submission import ENTRY_BYTES, cut

CREATE, RECEIVE, FORK, JOIN, CLONE = "create", "receive", "fork", "join", "clone"
CONTENT, ATTRIBUTES, ROUTE = "modify content", "modify attributes", "route"
SEND, FETCH, REPLAY, EXPIRE, DROP = "send", "fetch", "replay", "expire", "drop"
TYPES = (CREATE, RECEIVE, FORK, JOIN, CLONE, CONTENT, ATTRIBUTES, ROUTE, SEND, FETCH, REPLAY, EXPIRE, DROP)
BY_HAND = (SEND, RECEIVE, FETCH)
"""The types of events that are no change of an item: a program says them."""
VALUE_BYTES = 4 << 10
"""The most bytes of a value that an event has. Of a larger one it has the size, and the value is in the log and the archive."""
MSGPACK = "msgpack"
_OMITTED = "omitted:"
_PART_BYTES = 1 << 20
_KEY = Struct(">QI")


class Record(msgspec.Struct, array_like=True, gc=False):
    """What happened to items in a transaction. The items of `before` and `after` are stored entries, whose values may be omitted.

    With `each`, it is an event for each item: the first of `before` became the first of `after`, and so on. One of the two may be
    empty. Else it is one event.
    """

    type: str
    each: bool
    before: list[Entry]
    after: list[Entry]
    component: str = ""
    details: dict[str, str] = {}


class StoredRecord(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A `Record` as it is read."""

    type: str
    each: bool
    before: list[DataEntry]
    after: list[DataEntry]
    component: str = ""
    details: dict[str, str] = {}

    def single(self) -> Iterable[StoredRecord]:
        """This record as one for each event."""
        if not self.each:
            yield self
            return
        for number in range(max(len(self.before), len(self.after))):
            part = slice(number, number + 1)
            yield StoredRecord(
                self.type, False, self.before[part], self.after[part], self.component, self.details
            )  # fmt: skip


class EventKey(NamedTuple):
    """The key of an entry of events, in parts."""

    timestamp: int
    part: int
    node: str

    def to_bytes(self) -> bytes:
        """The key in the log."""
        return _KEY.pack(self.timestamp, self.part) + self.node.encode()

    @classmethod
    def of(cls, key: bytes) -> EventKey:
        """The parts of a key."""
        timestamp, part = _KEY.unpack_from(key)
        return cls(timestamp, part, key[_KEY.size :].decode())


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[StoredRecord]).decode


def entries_of(records: list[Record], timestamp: int, node: str) -> list[Entry]:
    """The entries of a transaction's records: one, or several if they are large."""
    for record in records:
        if any(_is_large(entry) for entry in record.before + record.after):
            record.before, record.after = [*map(short, record.before)], [*map(short, record.after)]
    value = _encode(records)
    if len(value) <= _PART_BYTES:
        return [Entry(EventKey(timestamp, 0, node).to_bytes(), EVENTS, value, MSGPACK, False, timestamp)]
    parts = cut((part for record in records for part in _parts(record)), _PART_BYTES, _size)
    return [
        Entry(EventKey(timestamp, number, node).to_bytes(), EVENTS, _encode(part), MSGPACK, False, timestamp)
        for number, part in enumerate(parts)
    ]


def records_of(value: bytes) -> list[StoredRecord]:
    """The records in the value of an entry of events. Raises `msgspec.DecodeError`."""
    return _decode(value)


def omitted_size(value: bytes, value_class: str) -> int | None:
    """The size of a value that a record does not have, None if it has the value."""
    return int(value) if value_class.startswith(_OMITTED) else None


def class_of_value(value_class: str) -> str:
    """The class of a value, also of one that was omitted."""
    return value_class.removeprefix(_OMITTED)


def short(entry: Entry) -> Entry:
    """The entry as a record has it: without a large value."""
    if not _is_large(entry):
        return entry
    omitted = b"%d" % (claim_of(entry).length if is_claimed(entry.value_class) else len(entry.value))
    value_class = _OMITTED + class_of_bytes(entry.value_class)
    return Entry(entry.key, entry.key_class, omitted, value_class, False, entry.timestamp)


def _is_large(entry: Entry) -> bool:
    return len(entry.value) > VALUE_BYTES or is_claimed(entry.value_class)


def _parts(record: Record) -> Iterable[Record]:
    """A record that is an event for each item, in parts of a limited size."""
    if not record.each or _size(record) <= _PART_BYTES:
        yield record
        return
    most = max(1, len(record.before or record.after) * _PART_BYTES // _size(record))
    for begin in range(0, max(len(record.before), len(record.after)), most):
        part = slice(begin, begin + most)
        yield Record(record.type, True, record.before[part], record.after[part], record.component, record.details)


def _size(record: Record) -> int:
    entries = record.before + record.after
    return sum([len(entry.key) + len(entry.value) for entry in entries], ENTRY_BYTES * (len(entries) + 1))
