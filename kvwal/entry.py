"""Entries: one change of one key, as callers get it (`DataEntry`) and as the log stores it (`Entry`, `ExpiringEntry`).

A stored entry is an `Entry` (six values) or an `ExpiringEntry` (seven values). Both are MessagePack arrays of the lengths that
the segment format gives them. They are encoded without a copy, and the garbage collector does not track them, because a store
holds millions of them. Callers never get a stored entry, only a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, ClassVar, Literal, NamedTuple, cast

import msgspec

from kvwal.key_class import DROPPED, TIME_MARK

TIMESTAMP_SHIFT = 16
"""A timestamp is `unix_ms << TIMESTAMP_SHIFT | counter`: a hybrid logical clock in one integer."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AWAY = b"away"
"""The key of the mark in a log whose member was away when other members destroyed the map: see `Ended`."""


class DataEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One change of one key.

    `key` and `value` are encoded by the codecs that `key_class` and `value_class` name. `deleted` is the only operation
    flag: a delete has value `b""` and value_class `""`. `timestamp` is a hybrid logical clock (see `when`); `expires` is
    unix milliseconds, 0 for never. Identity is (`key_class`, `key`).
    """

    key: bytes
    key_class: str
    value: bytes
    value_class: str
    deleted: bool
    timestamp: int
    expires: int = 0

    @property
    def when(self) -> datetime:
        """The wall-clock part of `timestamp`, in UTC, to the millisecond."""
        return EPOCH + timedelta(milliseconds=self.timestamp >> TIMESTAMP_SHIFT)


class Entry(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A stored entry that never expires. `timestamp` is 0 until the log writer sets it, once."""

    key: bytes
    key_class: str
    value: bytes
    value_class: str
    deleted: bool
    timestamp: int

    expires: ClassVar[int] = 0

    def public(self) -> DataEntry:
        """The entry as a `DataEntry`, for callers."""
        return DataEntry(
            self.key, self.key_class, self.value, self.value_class, self.deleted, self.timestamp, self.expires
        )


class ExpiringEntry(Entry, array_like=True, gc=False, forbid_unknown_fields=True):
    """A stored entry that expires: absent from the time `expires` (unix ms) on."""

    expires: int  # type: ignore[misc]  # the constant of the base class becomes a field


CLAIMED = "content:"
"""What begins the class of a value whose bytes stand in a claim file: then the value is the claim, and the class of the bytes
follows. No codec has a colon in its name.
"""


def is_claimed(value_class: str) -> bool:
    """Whether a value of this class is a claim: its bytes stand beside the log."""
    return value_class.startswith(CLAIMED)


def class_of_bytes(value_class: str) -> str:
    """The class of the bytes of a value, also if they stand beside the log."""
    return value_class.removeprefix(CLAIMED)


def entry_identity(entry: Entry) -> tuple[str, bytes]:
    """The identity of a stored entry: class and bytes of its key."""
    return entry.key_class, entry.key


def is_live(entry: Entry | DataEntry, now_ms: int) -> bool:
    """Whether an entry that is the latest of its key makes the key present: it is no delete, and has not expired by `now_ms`."""
    return not entry.deleted and not 0 < entry.expires <= now_ms


def timestamps_within(seconds: float) -> int:
    """The difference of two timestamps that are `seconds` apart."""
    return round(seconds * 1000) << TIMESTAMP_SHIFT


def time_mark(timestamp: int = 0) -> Entry:
    """An entry that changes no key and raises the last timestamp of its log."""
    return Entry(b"", TIME_MARK, b"", "", True, timestamp)


class Ended(NamedTuple):
    """The mark in the log of a member that was away when other members destroyed the map, at the timestamp `destroyed`.

    It voids the entries of this log up to the timestamp `until`. Unlike the mark of a destroyed map, it says nothing about other
    logs.
    """

    until: int
    destroyed: int

    def mark(self) -> Entry:
        """The mark as an entry to log."""
        return Entry(AWAY, DROPPED, _ENDED.pack(*self), "bytes", False, 0)

    @classmethod
    def of(cls, value: bytes) -> Ended:
        """Decode the mark from the value of its entry."""
        return cls(*_ENDED.unpack(value))


_ENDED = Struct(">QQ")

Decode = Callable[[bytes], list[Entry]]

encode_entries = msgspec.msgpack.Encoder().encode
"""Encode a list of entries as MessagePack: the payload of a block of kind 2."""


def make_entry(
    key: bytes, key_class: str, value: bytes, value_class: str, deleted: bool, timestamp: int, expires: int
) -> Entry:
    """A stored entry with these values: an `ExpiringEntry` if it expires, else an `Entry`."""
    if expires:
        return ExpiringEntry(key, key_class, value, value_class, deleted, timestamp, expires)
    return Entry(key, key_class, value, value_class, deleted, timestamp)


def count_entries(payload: bytes) -> int:
    """Number of entries in the payload of an entries block, from its first bytes. `msgspec.DecodeError` if it is no array."""
    kind = payload[0] if payload else 0
    if kind >> 4 == 0x9:
        return kind & 0xF
    if kind not in (0xDC, 0xDD):
        raise msgspec.DecodeError("the payload is no array")
    return int.from_bytes(payload[1 : 3 if kind == 0xDC else 5], "big")


def first_identity(payload: bytes) -> tuple[str, bytes]:
    """The identity of the first entry in the payload of an entries block. The other entries are not looked at, which makes a
    search of a snapshot three times as fast. `msgspec.DecodeError` if the payload does not begin with an entry.
    """
    kind = payload[0] if payload else 0
    entry = 1 if kind >> 4 == 0x9 else {0xDC: 3, 0xDD: 5}.get(kind, len(payload))
    key, key_end = _text(payload, entry + 1, _BIN)
    key_class, _ = _text(payload, key_end, _STR)
    if payload[entry] not in (0x96, 0x97):
        raise msgspec.DecodeError("the payload does not begin with an entry")
    try:
        return key_class.decode(), key
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"the class of the first key is no text ({error})") from error


_BIN = {0xC4: 1, 0xC5: 2, 0xC6: 4}
"""Bytes of the length after each type byte of MessagePack for bytes."""
_STR = {0xD9: 1, 0xDA: 2, 0xDB: 4}
"""The same for texts of 32 bytes or more. The type byte of shorter ones has the length in it."""


def _text(payload: bytes, at: int, kinds: dict[int, int]) -> tuple[bytes, int]:
    """The bytes or text at an offset, and the offset after it."""
    kind = payload[at] if at < len(payload) else 0
    if kinds is _STR and kind >> 5 == 0b101:
        start, size = at + 1, kind & 0x1F
    elif kind in kinds:
        start = at + 1 + kinds[kind]
        size = int.from_bytes(payload[at + 1 : start], "big")
    else:
        raise msgspec.DecodeError("the payload does not begin with an entry")
    found = payload[start : start + size]
    if len(found) < size:
        raise msgspec.DecodeError("the first entry is cut")
    return found, start + size


MOST_NAMES = 1_000
"""The most names that a decoder knows."""


def make_decoder(classes: Iterable[str]) -> Decode:
    """A function from the payload of an entries block to its entries, in order.

    `classes` are the names of codecs that most entries have. They are decoded as literals, so that all entries share one string
    object: a store of a million entries would hold two million copies of "str" otherwise. Other names, those of the structures
    beside the map, are learned from the first block that has them, up to `MOST_NAMES` in all. A block with a name above that, or
    with an entry that expires, is decoded more slowly. Raises `msgspec.DecodeError` on a payload of another shape.
    """
    known = _Known.of({"", *classes})

    def decode(payload: bytes) -> list[Entry]:
        nonlocal known  # any thread may replace it: what another one has learned meanwhile is learned again
        try:
            return known.decode(payload)
        except msgspec.ValidationError:
            entries = _decode_any(payload)
        names = {name: name for entry in entries for name in (entry.key_class, entry.value_class)}
        together = known.names.union(names)
        if len(known.names) < len(together) <= MOST_NAMES:
            known = _Known.of(together)
            return decode(payload)
        return [
            make_entry(e.key, names[e.key_class], e.value, names[e.value_class], e.deleted, e.timestamp, e.expires)
            for e in entries
        ]

    return decode


class _Known(NamedTuple):
    """Names, and a decoder of blocks that have no others. It raises `msgspec.ValidationError` for other blocks, and for those
    with an entry that expires.
    """

    names: frozenset[str]
    decode: Decode

    @classmethod
    def of(cls, names: Iterable[str]) -> _Known:
        """The decoder for these names."""
        literal = Literal.__getitem__(tuple(sorted(names)))
        fields: Sequence[Any] = [("key", bytes), ("key_class", literal), ("value", bytes), ("value_class", literal)]
        known = msgspec.defstruct(
            "KnownEntry", fields, bases=(Entry,), array_like=True, gc=False, forbid_unknown_fields=True
        )
        decoder = msgspec.msgpack.Decoder(list[known])  # type: ignore[valid-type]
        return cls(frozenset(names), cast("Decode", decoder.decode))


_decode_any = msgspec.msgpack.Decoder(list[DataEntry]).decode
