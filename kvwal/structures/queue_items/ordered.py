"""Items by their keys, in order. The order is made when it is asked for the first time, and kept up from then on.

So while a log is recovered an item costs as much as an entry of a map, and the order of a million items is made by one sort.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from sortedcontainers import SortedList

from kvwal.entry import Entry


class OrderedItems(dict[bytes, Entry]):
    """A dict of items that can be taken from its beginning, and read from any key on."""

    def __init__(self) -> None:
        super().__init__()
        self._order: SortedList | None = None

    def __setitem__(self, key: bytes, entry: Entry) -> None:
        if self._order is not None and key not in self:
            self._order.add(key)
        super().__setitem__(key, entry)

    def add_new(self, items: dict[bytes, Entry]) -> None:
        """Add items of which none is there."""
        if self._order is not None:
            self._order.update(items)
        super().update(items)

    def pop(self, key: bytes, default: Any = None) -> Any:
        """Remove an item and return it; `default` if it is not there."""
        entry = super().pop(key, None)
        if entry is None:
            return default
        if self._order is not None:
            self._order.remove(key)
        return entry

    def pop_first(self) -> tuple[bytes, Entry]:
        """Remove the first item and return it with its key."""
        key: bytes = self._ordered().pop(0)
        return key, super().pop(key)

    def first(self) -> bytes:
        """The first key. There is one."""
        key: bytes = self._ordered()[0]
        return key

    def remove_all(self, keys: list[bytes]) -> None:
        """Remove these items, which are there and many."""
        deque(map(super().pop, keys), maxlen=0)
        self._order = None  # one sort of those that are left costs less

    def clear(self) -> None:
        """Remove all items."""
        super().clear()
        self._order = None

    def in_order(self) -> list[bytes]:
        """All keys, in order."""
        return sorted(self) if self._order is None else list(self._order)

    def keys_after(self, key: bytes | None) -> Iterator[bytes]:
        """The keys behind `key` (None: all keys), in order."""
        keys: Iterator[bytes] = self._ordered().irange(key, inclusive=(False, True))
        return keys

    def keys_from(self, key: bytes) -> Iterator[bytes]:
        """The keys from `key` on, in order."""
        keys: Iterator[bytes] = self._ordered().irange(key)
        return keys

    def keys_between(self, after: bytes, end: bytes) -> Iterator[bytes]:
        """The keys behind `after` and before `end`, in order."""
        keys: Iterator[bytes] = self._ordered().irange(after, end, inclusive=(False, False))
        return keys

    def _ordered(self) -> SortedList:
        if self._order is None:
            self._order = SortedList(self)
        return self._order
