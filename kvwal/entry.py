"""The one word of the log: an entry, as callers see it and as the log stores it.

`DataEntry` is the public record. Inside, an entry is an `Entry` (six values) or an `ExpiringEntry` (seven): MessagePack
arrays of exactly the lengths that the segment format has for them, encoded without a copy and untracked by the garbage
collector, because a store holds millions of them. Nobody outside ever holds one of these: what is handed out is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from struct import Struct
from typing import Any, ClassVar, Literal, NamedTuple, cast

import msgspec

TIMESTAMP_SHIFT = 16
"""A timestamp is `unix_ms << TIMESTAMP_SHIFT | counter`: a hybrid logical clock in one integer."""
TIME_MARK = "time:none"
"""The key class of a time mark: a delete of a key that no caller can name. Only its timestamp means anything."""
DROPPED = "dropped:none"
"""The key class of the mark of a destroyed map: what its log held up to the mark's timestamp is gone. Its key is empty."""
AWAY = b"away"
"""The key of the mark of a log whose member was away when others destroyed the map: see `Ended`."""


class DataEntry(msgspec.Struct, array_like=True, frozen=True):
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
        return datetime.fromtimestamp((self.timestamp >> TIMESTAMP_SHIFT) / 1000, tz=UTC)


class Entry(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """An entry that never expires, as the log stores it. `timestamp` is 0 until the log writer stamps it, once."""

    key: bytes
    key_class: str
    value: bytes
    value_class: str
    deleted: bool
    timestamp: int

    expires: ClassVar[int] = 0

    def public(self) -> DataEntry:
        """A copy for a caller."""
        return DataEntry(
            self.key, self.key_class, self.value, self.value_class, self.deleted, self.timestamp, self.expires
        )


class ExpiringEntry(Entry, array_like=True, gc=False, forbid_unknown_fields=True):
    """An entry with an end: absent from `expires` (unix ms) on."""

    expires: int  # type: ignore[misc]  # the base's constant becomes a field


def timestamps_within(seconds: float) -> int:
    """How many timestamps pass in this time: how far two of them lie apart."""
    return int(seconds * 1000) << TIMESTAMP_SHIFT


def time_mark(timestamp: int = 0) -> Entry:
    """An entry that changes nothing and says how far the time of its log has come."""
    return Entry(b"", TIME_MARK, b"", "", True, timestamp)


class Ended(NamedTuple):
    """What the mark of a member that was away says: what its log held up to the timestamp `until` ended when others destroyed the
    map, at `destroyed`. Unlike the mark of a destruction it says nothing of other logs."""

    until: int
    destroyed: int

    def mark(self) -> Entry:
        """The entry, to be logged."""
        return Entry(AWAY, DROPPED, _ENDED.pack(*self), "bytes", False, 0)

    @classmethod
    def of(cls, value: bytes) -> Ended:
        """What an entry's value says."""
        return cls(*_ENDED.unpack(value))


_ENDED = Struct(">QQ")

Decode = Callable[[bytes], list[Entry]]

encode_entries = msgspec.msgpack.Encoder().encode
"""MessagePack of a list of entries: the payload of a block of kind 2."""


def make_entry(
    key: bytes, key_class: str, value: bytes, value_class: str, deleted: bool, timestamp: int, expires: int
) -> Entry:
    """The right one of the two stored shapes."""
    if expires:
        return ExpiringEntry(key, key_class, value, value_class, deleted, timestamp, expires)
    return Entry(key, key_class, value, value_class, deleted, timestamp)


def count_entries(payload: bytes) -> int:
    """How many entries such a payload holds, which its first bytes say. `msgspec.DecodeError` if it is no array."""
    kind = payload[0] if payload else 0
    if kind >> 4 == 0x9:
        return kind & 0xF
    if kind not in (0xDC, 0xDD):
        raise msgspec.DecodeError("no array stands there")
    return int.from_bytes(payload[1 : 3 if kind == 0xDC else 5], "big")


def make_decoder(classes: Iterable[str]) -> Decode:
    """A function from the payload of an entries block to its entries, in order.

    `classes` are the names most entries will have. They are decoded as literals, which gives every entry the same string
    object: a store of a million entries would else hold two million copies of "str". Any other name, and any entry that
    expires, takes the general road. Raises `msgspec.DecodeError` on a payload of another shape.
    """
    names = tuple(sorted({"", *classes}))
    literal = Literal.__getitem__(names)
    fields: Sequence[Any] = [("key", bytes), ("key_class", literal), ("value", bytes), ("value_class", literal)]
    known = msgspec.defstruct(
        "KnownEntry", fields, bases=(Entry,), array_like=True, gc=False, forbid_unknown_fields=True
    )
    fast = msgspec.msgpack.Decoder(list[known])  # type: ignore[valid-type]

    def decode(payload: bytes) -> list[Entry]:
        try:
            return cast("list[Entry]", fast.decode(payload))
        except msgspec.ValidationError:
            return [
                make_entry(e.key, e.key_class, e.value, e.value_class, e.deleted, e.timestamp, e.expires)
                for e in _decode_any(payload)
            ]

    return decode


_decode_any = msgspec.msgpack.Decoder(list[DataEntry]).decode
