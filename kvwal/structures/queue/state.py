"""State of a queue in memory: the items that can be taken, in order, and those that were handed out (in flight).

An item in flight is in the log as before: a crash, or a transaction that is rolled back, leaves it at its place. What is in
flight is kept in memory only.

The order of the items is made when it is asked for the first time, and kept up from then on. So while a log is recovered an item
costs as much as an entry of a map, and the order of a million items is made by one sort.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from weakref import ref

from sortedcontainers import SortedDict, SortedList

from kvwal.entry import Entry, is_live
from kvwal.structures.guards import Guards
from kvwal.structures.queue.positions import is_item, key_of, position_of, priority_of

_AT_ONCE = 500
"""Items that a reader copies while it holds the lock of the business."""


class Reservation:
    """Items that one taker was handed out. Once it is `over`, it is handed out nothing more: its taker does not wait any more."""

    __slots__ = ("entries", "over")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.over = False


class QueueState:
    """The items of one queue. See `kvwal.structures.memory.StructureState`; the other methods are for any thread.

    `hand_out` is called for one transaction after the other, by the holder of the log's turn.
    """

    def __init__(self, guards: Guards) -> None:
        self._now = guards.now
        self._lock = guards.lock
        self._ready: dict[bytes, Entry] = {}
        self._order: SortedList | None = None
        self._in_flight: dict[bytes, Entry] = {}
        self._others: dict[tuple[str, bytes], Entry] = {}
        self._expiring: SortedDict = SortedDict()
        self._bytes = 0
        self._takers: deque[Callable[[], None]] = deque()
        self.takers: ref[Any] | None = None  # see `kvwal.structures.queue.waiting.takers_of`

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """See `StructureState.lookup`. An item in flight is found."""
        entry = self._ready.get(key) or self._in_flight.get(key) or self._others.get((key_class, key))
        return entry if entry is not None and entry.key_class == key_class and is_live(entry, self._now()) else None

    def apply(self, entries: list[Entry]) -> None:
        """See `StructureState.apply`."""
        ready, in_flight, order, of_items, size = self._ready, self._in_flight, self._order, "", 0
        for entry in entries:
            if entry.key_class != of_items:
                if not is_item(entry.key_class):
                    self._apply_other(entry)
                    continue
                of_items = entry.key_class
            key = entry.key
            if key in in_flight or key in ready:
                self._drop(key)
            if not entry.deleted:
                ready[key] = entry
                size += len(entry.value)
                if order is not None:
                    order.add(key)
                if entry.expires:
                    self._expiring[entry.expires, key] = entry
        self._bytes += size

    def clear(self) -> None:
        """See `StructureState.clear`."""
        self._ready.clear()
        self._order = None
        self._in_flight.clear()
        self._others.clear()
        self._expiring.clear()
        self._bytes = 0

    def drop_until(self, timestamp: int) -> None:
        """See `StructureState.drop_until`."""
        for table in (self._ready, self._in_flight):
            for key in [key for key, entry in table.items() if entry.timestamp <= timestamp]:
                self._drop(key)
        self._others = {known: entry for known, entry in self._others.items() if entry.timestamp > timestamp}

    def drop_expired(self, most: int) -> int:
        """See `StructureState.drop_expired`."""
        now, last = self._now(), 0
        while most and self._expiring:
            (expires, key), _ = self._expiring.peekitem(0)
            if expires > now:
                break
            self._drop(key)
            last, most = expires, most - 1
        return last

    def holds_nothing(self) -> bool:
        """See `StructureState.holds_nothing`."""
        return not (self._ready or self._in_flight or self._others)

    def hand_out(self, most: int, held: Reservation) -> list[Entry]:
        """Hand out up to `most` items, the first ones: they are in flight until they are deleted, or given back."""
        taken: list[Entry] = []
        with self._lock:
            if held.over:
                return []
            now = self._now()
            order = self._ordered()
            while len(taken) < most and order:
                key = order.pop(0)
                entry = self._in_flight[key] = self._ready.pop(key)
                if is_live(entry, now):
                    taken.append(entry)
                else:
                    self._drop(key)
            held.entries += taken
        return taken

    def give_back(self, held: Reservation) -> None:
        """Return items that are in flight to their places. Items that are not in flight any more stay as they are."""
        with self._lock:
            held.over = True
            for entry in held.entries:
                if self._in_flight.pop(entry.key, None) is not None:
                    self._ready[entry.key] = entry
                    if self._order is not None:
                        self._order.add(entry.key)
            held.entries = []
        self.wake_takers()

    def items(self) -> Iterator[Entry]:
        """The items that can be taken, in order. A part of them at a time is read under the lock: items that are put or taken
        meanwhile may be there or not.
        """
        after: bytes | None = None
        while True:
            with self._lock:
                keys = list(islice(self._ordered().irange(after, inclusive=(False, True)), _AT_ONCE))
                found = [self._ready[key] for key in keys]
            if not found:
                return
            now = self._now()
            yield from (entry for entry in found if is_live(entry, now))
            after = found[-1].key

    def count(self) -> int:
        """The number of items that can be taken. An item that expired counts until it is dropped."""
        return len(self._ready)

    @property
    def in_flight(self) -> int:
        """The number of items in flight."""
        return len(self._in_flight)

    @property
    def size(self) -> int:
        """The bytes of the values of all items."""
        return self._bytes

    @property
    def oldest(self) -> int:
        """When the oldest item that can be taken was put, as a timestamp; 0 without one. Looks at one item of each priority."""
        oldest = 0
        with self._lock:
            order = self._ordered()
            first = next(iter(order), None)
            while first is not None:
                oldest = min(oldest or position_of(first), position_of(first))
                first = next(order.irange(key_of(priority_of(first) + 1, 0)), None)
        return oldest

    def expect(self, wake: Callable[[], None]) -> None:
        """Register a taker that waits: `wake`, which does not wait and raises nothing, is called once, when it is its turn."""
        with self._lock:
            self._takers.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Take a taker off. If it was woken already, the next one is woken in its place."""
        with self._lock:
            if wake in self._takers:
                self._takers.remove(wake)
                return
        self.wake_takers()

    def wake_takers(self) -> None:
        """Wake as many takers as there are items: after a group was applied, and after items came back."""
        if not self._takers:
            return
        with self._lock:
            woken = [self._takers.popleft() for _ in range(min(len(self._ready), len(self._takers)))]
        for wake in woken:
            wake()

    def wake_all(self) -> None:
        """Wake all takers: the log takes no more writes."""
        with self._lock:
            woken, self._takers = self._takers, deque()
        for wake in woken:
            wake()

    def _ordered(self) -> SortedList:
        """The keys of the items that can be taken, sorted."""
        if self._order is None:
            self._order = SortedList(self._ready)
        return self._order

    def _drop(self, key: bytes) -> None:
        entry = self._in_flight.pop(key, None)
        if entry is None and (entry := self._ready.pop(key, None)) is not None and self._order is not None:
            self._order.remove(key)
        if entry is not None:
            self._bytes -= len(entry.value)
            if entry.expires:
                self._expiring.pop((entry.expires, key), None)

    def _apply_other(self, entry: Entry) -> None:
        if entry.deleted:
            self._others.pop((entry.key_class, entry.key), None)
        else:
            self._others[entry.key_class, entry.key] = entry
