"""Snapshot iterator over the in-memory state: shows one moment, and reads a few entries at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, Self

from sortedcontainers import SortedDict

from kvwal.entry import Entry
from kvwal.ports.locks import Lock
from kvwal.structures.map.order import KeyOrder, Table

_FIRST, _MOST = 8, 512
"""Entries that are read at a time: few at first, because many callers need only the first ones."""


class KeyBounds(NamedTuple):
    """Bounds of the keys that a caller asks for: of one class, from `start` to before `stop` (None: to the end of the class).

    Without a class they are the keys of all classes of a map.
    """

    key_class: str | None = None
    start: bytes = b""
    stop: bytes | None = None

    def has(self, key_class: str, key: bytes) -> bool:
        """Whether a key of a map is within the bounds."""
        return self.key_class is None or (
            key_class == self.key_class and self.start <= key and (self.stop is None or key < self.stop)
        )

    def identities(self) -> tuple[tuple[str, bytes], tuple[str, bytes]] | None:
        """The identity at which the keys begin, and the one before which they end; None if they are of all classes."""
        if self.key_class is None:
            return None
        end = (self.key_class + "\0", b"") if self.stop is None else (self.key_class, self.stop)
        return (self.key_class, self.start), end


class Range(NamedTuple):
    """A range of keys of one class, from `start` to before `stop` (None: to the end), with its table and key order."""

    key_class: str
    start: bytes
    stop: bytes | None
    table: Table
    order: KeyOrder


class View(Iterator[Entry]):
    """An iterator over the live entries of some ranges as they were at its creation, in order, or in reverse order. Used by one
    thread at a time.

    Before the log writer changes an entry ahead of the iterator, it calls `changes`, and the iterator keeps the old entry. So the
    iterator holds only entries that were changed since its creation, and drops them as it passes.
    """

    def __init__(self, lock: Lock, ranges: list[Range], now: int, *, reverse: bool = False) -> None:
        """Create the view while holding `lock`; `changes` needs `lock`, too. Expiry is judged by `now` (unix ms)."""
        self._lock = lock
        self._now = now
        self._reverse = reverse
        self._left = ranges if reverse else ranges[::-1]
        self._ahead = {part.key_class: part for part in ranges}
        self._kept: dict[str, SortedDict] = {part.key_class: SortedDict() for part in ranges}
        self._most = _FIRST
        self._read: Iterator[Entry] = iter(())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Entry:
        """The next entry."""
        while True:
            for entry in self._read:
                if not entry.expires or entry.expires > self._now:
                    return entry
            if not self._left:
                raise StopIteration
            with self._lock:
                self._read = iter(self._next_entries())

    def changes(self, entry: Entry, old: Entry | None) -> None:
        """Keep `old`, which `entry` is about to replace (None: the key is absent)."""
        part = self._ahead.get(entry.key_class)
        if part is None or entry.key < part.start or (part.stop is not None and entry.key >= part.stop):
            return
        kept = self._kept[entry.key_class]
        if entry.key not in kept:
            if old is not None or not entry.deleted:
                kept[entry.key] = old
        elif entry.deleted and kept[entry.key] is None:
            del kept[entry.key]  # put and deleted since the creation

    def _next_entries(self) -> list[Entry]:
        key_class, start, stop, table, order = part = self._left.pop()
        kept = self._kept[key_class]
        following = order.preceding if self._reverse else order.following
        keys = following(start, stop, self._most)
        changed = list(islice(kept.irange(start, stop, inclusive=(True, False), reverse=self._reverse), self._most))
        ends = [run[-1] for run in (keys, changed) if len(run) == self._most]
        if not ends:
            del self._ahead[key_class]
        elif self._reverse:
            rest = self._ahead[key_class] = part._replace(stop=max(ends))
            self._left.append(rest)
            keys, changed = ([key for key in run if key >= max(ends)] for run in (keys, changed))
        else:
            rest = self._ahead[key_class] = part._replace(start=min(ends) + b"\x00")  # the next possible key
            self._left.append(rest)
            keys, changed = ([key for key in run if key <= min(ends)] for run in (keys, changed))
        self._most = min(4 * self._most, _MOST)
        if not changed:
            return [table[key] for key in keys]
        entries = {key: table[key] for key in keys} | {key: kept.pop(key) for key in changed}
        return [entry for _, entry in sorted(entries.items(), reverse=self._reverse) if entry is not None]
