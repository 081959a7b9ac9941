"""Positions of items: the key of an item is one number that orders a queue, by priority and then by the order of the puts.

    number = (priority << 58) + position

A position is a timestamp of the log's hybrid clock that the item alone has, so it grows from put to put, also after the queue was
empty and after a restart. The number fits a signed integer of 64 bits until the year 2109.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kvwal.errors import ConfigError
from kvwal.key_class import QUEUE as KIND
from kvwal.key_class import kind_of, structure_of
from kvwal.key_codecs import decode_int, encode_int
from kvwal_archive.layout import check_name

LOWEST, HIGHEST = -16, 15
"""The priorities. An item of a smaller number is taken first."""
ITEM_KEY_BYTES = 9
"""The most bytes of an item's key."""
_BITS = 58
LAST_POSITION = (1 << _BITS) - 1
"""The greatest position."""
_EIGHT_BYTES = 1 << 56
_OF_ITEMS = ":int"
_OF_DELIVERIES, _OF_OPTIONS = ":_delivery", ":_options"
OPTIONS_KEY = b"options"
"""The key of the only entry of a queue's options."""
_BEHIND = chr(ord(":") + 1)
"""The first character behind those that follow the kind in a key class: `/` and `:`."""
Range: TypeAlias = tuple[tuple[str, bytes], tuple[str, bytes]]
"""A range of identities, from the first one to before the second one."""


def queue_structure(name: str) -> str:
    """The structure of the queue `name` of a business; that of its own queue if the name is empty. Raises `InvalidName`."""
    return f"{KIND}/{check_name(KIND, name)}" if name else KIND


def queue_named(structure: str) -> str:
    """The name of the queue of a structure: see `queue_structure`."""
    return structure.partition("/")[2]


def item_class(structure: str) -> str:
    """The key class of the items of a queue."""
    return f"{structure}{_OF_ITEMS}"


def is_item(key_class: str) -> bool:
    """Whether entries of this class, of a queue, are its items."""
    return key_class.endswith(_OF_ITEMS)


def delivery_class(structure: str) -> str:
    """The key class of what is known of the items' deliveries: see `kvwal.structures.queue.deliveries`."""
    return f"{structure}{_OF_DELIVERIES}"


def is_delivery(key_class: str) -> bool:
    """Whether entries of this class, of a queue, say something of the deliveries of its items."""
    return key_class.endswith(_OF_DELIVERIES)


def options_class(structure: str) -> str:
    """The key class of the options of a queue."""
    return f"{structure}{_OF_OPTIONS}"


def is_options(key_class: str) -> bool:
    """Whether entries of this class, of a queue, are its options."""
    return key_class.endswith(_OF_OPTIONS)


def of_items(structure: str) -> Callable[[str], bool]:
    """Whether entries of a class are the items of this queue, as `Watch` asks it."""
    of_queue = item_class(structure)
    return lambda key_class: key_class == of_queue


def is_of_queue(key_class: str) -> bool:
    """Whether entries of this class are items of any queue."""
    return is_of_any_queue(key_class) and is_item(key_class)


def is_of_any_queue(key_class: str) -> bool:
    """Whether entries of this class are of a queue: items, and what is known of them and of the queue."""
    return kind_of(structure_of(key_class)) == KIND


def range_of_items(structure: str | None = None) -> Range:
    """The range that has the items of a queue; without `structure` those of all queues, and entries of other structures."""
    return range_of_queue() if structure is None else range_of(item_class(structure))


def range_of_queue(structure: str | None = None) -> Range:
    """The range that has the entries of a queue; without `structure` those of all queues, and entries of other structures."""
    return ((KIND, b""), (KIND + _BEHIND, b"")) if structure is None else ((structure, b""), (structure + _BEHIND, b""))


def range_of(key_class: str) -> Range:
    """The range of the entries of a class."""
    return (key_class, b""), (key_class + "\0", b"")


def checked_priority(priority: int) -> int:
    """`priority`, if it is one. Raises `ConfigError`."""
    if type(priority) is int and LOWEST <= priority <= HIGHEST:
        return priority
    raise ConfigError(
        f"priority={priority!r} must be a whole number from {LOWEST} to {HIGHEST}; nothing was put.",
        hint="An item of a smaller number is taken first; items without one have 0.",
    )


def key_of(priority: int, position: int) -> bytes:
    """The key of the item at a position."""
    number = (priority << _BITS) + position
    if number >= _EIGHT_BYTES:  # nearly always; as `encode_int`, which takes three times as long
        return b"\x88" + number.to_bytes(8, "big")
    return encode_int(number)


def place_of(number: int) -> tuple[int, int]:
    """The priority and the position that are in the number of an item: see `key_of`."""
    return number >> _BITS, number & LAST_POSITION


def priority_of(key: bytes) -> int:
    """The priority of an item."""
    return decode_int(key) >> _BITS


def position_of(key: bytes) -> int:
    """The position of an item."""
    return decode_int(key) & LAST_POSITION
