"""State of a queue in memory: the items that can be taken, in order, those that were handed out (in flight), and those that are
not due yet (delayed).

An item in flight is in the log as before: a crash, or a transaction that is rolled back, leaves it at its place. What is in
flight is kept in memory only. Of many items those in the middle are in the log's files only (`kvwal.structures.queue_items`).
"""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedDict

from kvwal.content.claim import value_bytes
from kvwal.entry import Entry, is_live
from kvwal.errors import KvwalError
from kvwal.structures.guards import Guards
from kvwal.structures.queue.capacity import Room
from kvwal.structures.queue.deliveries import Delivery, delivery_of
from kvwal.structures.queue.options import NO_OPTIONS, options_of
from kvwal.structures.queue.positions import is_delivery, is_item, is_options, position_of
from kvwal.structures.queue.waiters import Waiters
from kvwal.structures.queue_items.ordered import OrderedItems
from kvwal.structures.queue_items.ready import ReadyItems
from kvwal.structures.queue_items.reservation import Reservation
from kvwal.structures.queue_items.swapped import Swap

_MANY = 16  # entries from which on a look at all of them together pays
_AT_ONCE = 500
"""Items that a reader copies while it holds the lock of the business."""


class QueueState:
    """The items of one queue. See `kvwal.structures.memory.StructureState`; the other methods are for any thread.

    `hand_out` is called for one transaction after the other, by the holder of the log's turn.
    """

    def __init__(self, guards: Guards, swap: Swap | None = None) -> None:
        """Without `swap` all items stay in memory."""
        self._now, self._ended = guards.now, guards.ended
        self._lock = guards.lock
        self._swap = swap
        self._recovers = guards.recovers
        self._unread = False  # the items are to be read from the files when the log is recovered
        self._destroyed, self._of_items = 0, ""
        self._ready = ReadyItems(swap)
        self._in_flight: dict[bytes, Entry] = {}
        self._delayed = OrderedItems()
        self._due: SortedDict = SortedDict()  # the moments and keys of the delayed items
        self._deliveries: dict[bytes, Entry] = {}
        self._others: dict[tuple[str, bytes], Entry] = {}
        self._expiring: SortedDict = SortedDict()  # without the items in flight: they stay until their block ends
        self._expired_ms = 0
        self._bytes = 0
        self.options = NO_OPTIONS
        self.waiters = Waiters(guards.lock, self)

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """See `StructureState.lookup`. An item in flight is found, and a delayed one."""
        if is_item(key_class):
            entry = self._ready.get(key) or self._in_flight.get(key) or self._delayed.get(key)
        elif is_delivery(key_class):
            entry = self._deliveries.get(key)
        else:
            entry = self._others.get((key_class, key))
        return entry if entry is not None and entry.key_class == key_class and is_live(entry, self._now()) else None

    def apply(self, entries: list[Entry]) -> None:
        """See `StructureState.apply`."""
        ready, in_flight, delayed, of_items = self._ready, self._in_flight, self._delayed, self._of_items
        if entries and is_item(entries[0].key_class):  # what is known of the items before is applied, too
            ready.trim(self._deliveries, self._delayed)
        if not (len(entries) >= _MANY and self._add_new(entries)):
            for entry in entries:
                if entry.key_class != of_items:
                    if not is_item(entry.key_class):
                        self._apply_other(entry)
                        continue
                    of_items = self._of_items = entry.key_class
                key = entry.key
                if self._unread or (ready.swapped and ready.is_swapped(key)):
                    self._apply_unread(entry)
                    continue
                was_handed_out = key in in_flight
                if was_handed_out or key in ready.held or key in delayed:
                    self._drop(key)
                if not entry.deleted:
                    self._put(entry)
                elif not was_handed_out:
                    ready.note_handed_out([key])

    def _put(self, entry: Entry) -> None:
        key = entry.key
        self._ready.held[key] = entry
        self._bytes += value_bytes(entry)
        if entry.expires:
            self._expiring[entry.expires, key] = entry
        if key in self._deliveries:
            self._delay(key)

    def _apply_unread(self, entry: Entry) -> None:
        """Apply a change of an item that is not in memory: it was taken, or put back. The files have it, too."""
        self._read_again()
        if entry.deleted:
            self._ready.note_handed_out([entry.key])
            self._deliveries.pop(entry.key, None)

    def _read_again(self) -> None:
        """Read the items from the files again: an item that is not in memory was taken or delayed, so it should not have gone.

        While the log is recovered, that waits until all files were read.
        """
        if not self._recovers():
            self._read_items()
        elif not self._unread:
            self._unread = True
            self._forget_items()

    def recovered(self) -> None:
        """The log was recovered, and its files can be read. Raises `CorruptLog` and `OSError`."""
        with self._lock:
            if self._unread:
                self._read_items()
            self._ready.trim(self._deliveries, self._delayed)

    def _read_items(self) -> None:
        """Read the items from the files again, all but those in flight. Raises `CorruptLog` and `OSError`."""
        assert self._swap is not None
        assert self._of_items, "an item was let go"
        self._unread = False
        self._forget_items()
        now = self._now()
        for entries in self._swap.stored.latest(self._of_items):
            self._ready.trim(self._deliveries, self._delayed)
            if not self._destroyed and self._add_new(entries):
                continue
            for entry in entries:
                if not is_live(entry, now) or entry.timestamp <= self._destroyed:
                    self._ready.note_gone(entry.key)
                elif entry.key not in self._in_flight:
                    self._put(entry)

    def _forget_items(self) -> None:
        self._ready.clear()
        self._delayed.clear()
        self._due.clear()
        self._expiring.clear()
        self._bytes = sum(map(value_bytes, self._in_flight.values()))

    def _add_new(self, entries: list[Entry]) -> bool:
        """Add items of which each is new and never expires: a recovered log mostly has these. False: nothing was done."""
        if self._unread or self._in_flight or self._delayed or self._deliveries:
            return False
        new = {entry.key: entry for entry in entries}
        if len(new) < len(entries) or not self._ready.held.keys().isdisjoint(new) or self._ready.may_have_any(new):
            return False
        if any(entry.deleted or entry.expires for entry in entries) or not all(map(is_item, _classes(entries))):
            return False
        self._of_items = entries[0].key_class
        self._ready.held.add_new(new)
        self._bytes += sum(map(value_bytes, entries))
        return True

    def clear(self) -> None:
        """See `StructureState.clear`."""
        self._unread = False
        self._ready.forget()
        self._in_flight.clear()
        self._delayed.clear()
        self._due.clear()
        self._deliveries.clear()
        self._others.clear()
        self._expiring.clear()
        self._bytes = 0
        self.options = NO_OPTIONS

    def drop_until(self, timestamp: int) -> None:
        """See `StructureState.drop_until`."""
        self._destroyed = max(self._destroyed, timestamp)
        for table in (self._ready.held, self._in_flight, self._delayed):
            for key in [key for key, entry in table.items() if entry.timestamp <= timestamp]:
                self._drop(key)
        if self._ready.swapped:
            self._read_again()
        self._deliveries = {key: entry for key, entry in self._deliveries.items() if entry.timestamp > timestamp}
        for ended in [entry for entry in self._others.values() if entry.timestamp <= timestamp]:
            self._apply_other(Entry(ended.key, ended.key_class, b"", "", True, 0))

    def drop_expired(self, most: int) -> int:
        """See `StructureState.drop_expired`. It wakes putters that have room then."""
        now, dropped = self._now(), 0
        self._ready.trim(self._deliveries, self._delayed)
        while dropped < most and self._expiring:
            (expires, key), _ = self._expiring.peekitem(0)
            if expires > now:
                break
            self._drop(key)
            self._expired_ms = max(self._expired_ms, expires)
            dropped += 1
        if dropped and self.waiters.putters:
            for putter in self.waiters.next_putters(self._room()):
                putter.wake()
        last, self._expired_ms = self._expired_ms, 0
        return last

    def free_expired(self) -> None:
        """Drop what has expired now. The next `drop_expired` tells of it."""
        with self._lock:
            latest = 0
            while last := self.drop_expired(_AT_ONCE):
                latest = max(latest, last)
            self._expired_ms = latest

    def holds_nothing(self) -> bool:
        """See `StructureState.holds_nothing`."""
        return not (self._ready or self._in_flight or self._delayed or self._others)

    def hand_out(self, most: int, held: Reservation, *, delayed: bool = False) -> list[Entry]:
        """Hand out up to `most` items, the first ones: they are in flight until they are deleted, or given back.

        With `delayed` also those that are not due yet, after the others: a purge wants those, too.
        """
        taken: list[Entry] = []
        with self._lock:
            if held.over:
                return []
            now = self._now()
            if self._due:
                self._end_delays(now)
            while len(taken) < most and (self._ready or (delayed and self._due)):
                if not self._ready:
                    self._end_first_delay()
                try:
                    key, entry = self._ready.pop_first()
                except KvwalError:
                    if taken:
                        break  # the next call is refused
                    raise
                self._in_flight[key] = entry
                if is_live(entry, now):
                    taken.append(entry)
                    if entry.expires:
                        self._expiring.pop((entry.expires, key), None)
                else:
                    self._expired_ms = max(self._expired_ms, entry.expires)
                    self._drop(key)
            if self._swap is not None:
                self._ready.note_handed_out([entry.key for entry in taken])
            held.entries += taken
            if self._deliveries:
                held.deliveries += [known for entry in taken if (known := self._deliveries.get(entry.key)) is not None]
        return taken

    def give_back(self, held: Reservation) -> None:
        """Return items that are in flight to their places. Items that are not in flight any more stay as they are."""
        with self._lock:
            held.over = True
            for entry in held.entries:
                if self._in_flight.pop(entry.key, None) is not None:
                    self._ready.held[entry.key] = entry
                    if entry.expires:
                        self._expiring[entry.expires, entry.key] = entry
                    if entry.key in self._deliveries:
                        self._delay(entry.key)
            held.entries, held.deliveries = [], []
            self._ready.trim(self._deliveries, self._delayed)
        self.waiters.wake_takers()

    def items(self) -> Iterator[Entry]:
        """The items that can be taken, in order. A part of them at a time is read under the lock: items that are put or taken
        meanwhile may be there or not. Raises `CorruptLog` and `LogFailed`.
        """
        after: bytes | None = None
        self.count()
        while True:
            with self._lock:
                found, after = self._ready.part(after, _AT_ONCE)
            if after is None:
                return
            now = self._now()
            yield from (entry for entry in found if is_live(entry, now))

    def count(self) -> int:
        """The number of items that can be taken. An item that expired counts until it is dropped."""
        if self._due:
            with self._lock:
                self._end_delays(self._now())
        return len(self._ready)

    @property
    def in_flight(self) -> int:
        """The number of items in flight."""
        return len(self._in_flight)

    @property
    def delayed(self) -> int:
        """The number of items that are not due yet."""
        self.count()
        return len(self._delayed)

    @property
    def next_due(self) -> int:
        """When the next delayed item can be taken (unix ms); 0 if none is delayed."""
        if not self._due:
            return 0
        with self._lock:
            return self._due.peekitem(0)[0][0] if self._due else 0

    @property
    def room(self) -> Room:
        """The items and their bytes, those in flight and the delayed ones among them. See `capacity.Content`."""
        with self._lock:  # an item that is given back is in neither place for a moment
            return self._room()

    def value_bytes(self, key: bytes) -> int:
        """See `capacity.Content`."""
        entry = self._in_flight.get(key) or self._ready.held.get(key) or self._delayed.get(key)
        return 0 if entry is None else value_bytes(entry)

    def delivery(self, key: bytes) -> Delivery:
        """What is known of the deliveries of an item."""
        return delivery_of(self._deliveries.get(key))

    @property
    def size(self) -> int:
        """The bytes of the values of all items."""
        return self._bytes

    @property
    def oldest(self) -> int:
        """When the oldest item that can be taken was put, as a timestamp; 0 without one. Looks at one item of each priority."""
        with self._lock:
            return min(map(position_of, self._ready.firsts()), default=0)

    def _room(self) -> Room:
        return Room(len(self._ready) + len(self._in_flight) + len(self._delayed), self._bytes)

    def _drop(self, key: bytes) -> None:
        entry = self._in_flight.pop(key, None) or self._ready.held.pop(key, None) or self._undelayed(key)
        if entry is not None:
            self._bytes -= value_bytes(entry)
            if entry.expires:
                self._expiring.pop((entry.expires, key), None)
                self._ended(entry)
        if self._deliveries:
            self._deliveries.pop(key, None)

    def _delay(self, key: bytes) -> None:
        """Bring an item that is not in flight where what is known of its deliveries says: it waits, or can be taken."""
        entry = self._ready.held.pop(key, None) or self._undelayed(key)
        if entry is None:
            return
        due = self.delivery(key).due
        if due > self._now():
            self._delayed[key] = entry
            self._due[due, key] = None
        else:
            self._ready.held[key] = entry

    def _undelayed(self, key: bytes) -> Entry | None:
        """Take an item off the delayed ones, if it is one of them."""
        entry: Entry | None = self._delayed.pop(key, None)
        if entry is not None:
            self._due.pop((self.delivery(key).due, key), None)
        return entry

    def _end_delays(self, now: int) -> None:
        """Put delayed items that are due by `now` back at their places."""
        while self._due and self._due.peekitem(0)[0][0] <= now:
            self._end_first_delay()

    def _end_first_delay(self) -> None:
        (_, key), _ = self._due.popitem(0)
        self._ready.held[key] = self._delayed.pop(key)

    def _apply_other(self, entry: Entry) -> None:
        key_class, key = entry.key_class, entry.key
        if is_delivery(key_class):
            undelayed = self._undelayed(key)
            if undelayed is not None:
                self._ready.held[key] = undelayed
            if entry.deleted:
                self._deliveries.pop(key, None)
            else:
                self._deliveries[key] = entry
                if self._ready.swapped and self._ready.is_swapped(key):
                    self._read_again()
                self._delay(key)
            return
        if is_options(key_class):
            self.options = options_of(entry)
        if entry.deleted:
            self._others.pop((key_class, key), None)
        else:
            self._others[key_class, key] = entry


def _classes(entries: list[Entry]) -> set[str]:
    return {entry.key_class for entry in entries}
