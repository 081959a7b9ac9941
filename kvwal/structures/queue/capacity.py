"""Capacity of a queue: whether a transaction has room in it, decided in the order of the log. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from kvwal.content.claim import value_bytes
from kvwal.counted import counted
from kvwal.entry import Entry
from kvwal.errors import QueueFull, TooLarge
from kvwal.log.submission import GroupView
from kvwal.structures.queue.options import QueueOptions
from kvwal.structures.queue.positions import item_class

_BEYOND = "Put fewer at once, or set a larger capacity."


class Room(NamedTuple):
    """Items, and the bytes of their encoded values."""

    items: int
    size: int

    def plus(self, other: Room) -> Room:
        """Both together."""
        return Room(self.items + other.items, self.size + other.size)

    def minus(self, other: Room) -> Room:
        """How much more this is than the other."""
        return Room(self.items - other.items, self.size - other.size)

    def within(self, options: QueueOptions) -> bool:
        """Whether a queue of this capacity can hold so much."""
        return (options.capacity is None or self.items <= options.capacity) and (
            options.capacity_bytes is None or self.size <= options.capacity_bytes
        )


def room_of(entries: Iterable[Entry]) -> Room:
    """The room that these items take."""
    sizes = list(map(value_bytes, entries))
    return Room(len(sizes), sum(sizes))


class Content(Protocol):
    """What a queue holds, those in flight and the delayed ones among it."""

    @property
    def room(self) -> Room:
        """The room that all items take."""
        ...

    def value_bytes(self, key: bytes) -> int:
        """The bytes of the value of an item; 0 if there is none."""
        ...

    def free_expired(self) -> None:
        """Drop the items that have expired."""
        ...


class _Changed:
    """How much the transactions before one, in its group, add to a queue. Kept in the notes of the group."""

    def __init__(self) -> None:
        self.room = Room(0, 0)
        self.seen = 0


def check_room(
    name: str, structure: str, options: QueueOptions, group: GroupView, content: Content, puts: Room, takes: Room
) -> None:
    """Raise `QueueFull` if a transaction with these puts and takes has no room in the queue now, and `TooLarge` if it never has.

    A transaction that adds nothing always has room: a capacity may be set below what a queue holds.
    """
    more = puts.minus(takes)
    check_possible(name, options, more)
    if _has_room(structure, options, group, content, more):
        return
    content.free_expired()
    if not _has_room(structure, options, group, content, more):
        raise full(name, options)


def _has_room(structure: str, options: QueueOptions, group: GroupView, content: Content, more: Room) -> bool:
    return fits(options, content.room.plus(_changed(structure, group, content)), more)


def check_possible(name: str, options: QueueOptions, more: Room) -> None:
    """Raise `TooLarge` if a transaction that adds so much never has room in the queue `name`."""
    if not more.within(options):
        raise TooLarge(
            f"{name}: {counted(more.items, 'item')} of {counted(more.size, 'byte')} are more than its capacity of"
            f" {_capacity(options)}; nothing was put.",
            hint=_BEYOND,
        )


def fits(options: QueueOptions, there: Room, more: Room) -> bool:
    """Whether a transaction that adds so much has room beside what is there. What it does not make larger is no reason against
    it.
    """
    after = there.plus(more)
    return Room(after.items if more.items > 0 else 0, after.size if more.size > 0 else 0).within(options)


def full(name: str, options: QueueOptions) -> QueueFull:
    """The error of a transaction that has no room now in the queue `name`."""
    return QueueFull(
        f"{name} is full: its capacity is {_capacity(options)}; nothing was put.",
        hint="Take items, or set a larger capacity.",
    )


def _changed(structure: str, group: GroupView, content: Content) -> Room:
    noted: _Changed = group.notes.setdefault(structure, _Changed())
    items, size = noted.room
    of_items = item_class(structure)
    for entries in group.added[noted.seen :]:
        for entry in entries:
            if entry.key_class == of_items:
                items += -1 if entry.deleted else 1
                size += -content.value_bytes(entry.key) if entry.deleted else value_bytes(entry)
    noted.room, noted.seen = Room(items, size), len(group.added)
    return noted.room


def _capacity(options: QueueOptions) -> str:
    parts = []
    if options.capacity is not None:
        parts.append(counted(options.capacity, "item"))
    if options.capacity_bytes is not None:
        parts.append(counted(options.capacity_bytes, "byte"))
    return " and ".join(parts)
