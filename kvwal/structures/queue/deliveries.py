"""Deliveries of items: how often an item was given back, and when it is due again. No I/O.

What is known of an item is an entry beside the item's, with the same key and of another class. An item without one was never
given back, or its queue does not count, and it can be taken at once.
"""

from __future__ import annotations

import msgspec

from kvwal.entry import DataEntry, Entry, make_entry
from kvwal.log.submission import size_of
from kvwal.structures.queue.options import JSON

DELIVERY_BYTES = 128
"""More than the bytes of the entry of a delivery, in the ring and in the log."""


def give_back_bytes(item: Entry) -> int:
    """The most bytes that the give-back of an item takes in a transaction: one delivery more, or the move to the dead letters."""
    return size_of([item]) + 2 * DELIVERY_BYTES


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """`deliveries` is how often the item was given back, `due` from when on it can be taken (unix ms), 0 for at once."""

    deliveries: int = 0
    due: int = 0


NOT_DELIVERED = Delivery()
_decode = msgspec.json.Decoder(Delivery).decode
_encode = msgspec.json.Encoder().encode


def delivery_of(entry: Entry | DataEntry | None) -> Delivery:
    """What an entry says of its item; `NOT_DELIVERED` if it is None, a delete, or not readable here. Raises nothing."""
    if entry is None or entry.deleted:
        return NOT_DELIVERED
    try:
        return _decode(entry.value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return NOT_DELIVERED


def delivery_entry(key_class: str, item: Entry, delivery: Delivery) -> Entry:
    """The entry that says it of an item. It expires with the item."""
    return make_entry(item.key, key_class, _encode(delivery), JSON, False, 0, item.expires)
