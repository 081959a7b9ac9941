"""The ledger of imports of a queue: which events of Flume are in, so that none comes in twice.

An event is known by the write order of its put and by its place: Flume draws write orders from one clock for all channels of
a process, so those of two channels differ. Entries of the ledger are written in the transaction of their items, and pack some
hundred events in about four bytes each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvwal.importers.source import NotWhole
from kvwal.importers.wire import varint


class Identity(NamedTuple):
    """What tells an event from all others: the write order of its put, the number of its file, and the offset there."""

    order: int
    number: int
    offset: int

    def packed(self) -> int:
        """The identity as one number."""
        return self.order << 64 | self.number << 32 | self.offset


def encode(identities: Iterable[Identity]) -> bytes:
    """Some identities as bytes: differences to the one before."""
    out = bytearray()
    last = Identity(0, 0, 0)
    for identity in identities:
        for new, old in zip(identity, last, strict=True):
            number = new - old
            number = number << 1 if number >= 0 else (-number << 1) - 1
            while number > 0x7F:
                out.append(number & 0x7F | 0x80)
                number >>= 7
            out.append(number)
        last = identity
    return bytes(out)


def decode(data: bytes) -> list[Identity]:
    """The identities that were encoded. Raises `NotWhole` for other bytes."""
    identities = []
    last = Identity(0, 0, 0)
    at = 0
    while at < len(data):
        parts = []
        for old in last:
            number, at = varint(data, at)
            parts.append(old + (number >> 1 if not number & 1 else -(number + 1 >> 1)))
        last = Identity(*parts)
        identities.append(last)
    return identities


def known(values: Iterable[object]) -> set[int]:
    """The packed identities in the entries of a ledger. An entry that is no ledger's is passed over."""
    found: set[int] = set()
    for value in values:
        try:
            if isinstance(value, bytes):
                found.update(identity.packed() for identity in decode(value))
        except NotWhole:
            continue
    return found
