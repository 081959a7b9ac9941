"""Items of a queue that can be taken, in order. Above a number of items only the first and the newest ones stay in memory.

The log has every item already, so letting one go from memory writes nothing: it is read from the log's files again before it is
taken. What stays in memory although there are many: items that expire, that were given back, and that are delayed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter

from kvwal.entry import Entry
from kvwal.structures.queue.positions import key_of, priority_of
from kvwal.structures.queue_items.ordered import OrderedItems
from kvwal.structures.queue_items.swapped import Swap, SwappedItems

_LEAST = 64
"""The share of the items in memory that each priority keeps of its newest ones, and of its first ones."""
_key_of = attrgetter("key")
_expires_of = attrgetter("expires")


class ReadyItems:
    """The items that can be taken. `held` are those in memory. Called with the lock of the queue's business held."""

    def __init__(self, swap: Swap | None) -> None:
        """Without `swap` all items stay in memory."""
        self.held = OrderedItems()
        self._swap = swap
        self._swapped: dict[int, SwappedItems] = {}
        self._count = 0
        self._handed_out: dict[int, bytes] = {}  # the greatest key of each priority that was handed out
        self._gone: dict[int, set[bytes]] = {}  # keys that files have and no list has: see `note_gone`
        self._most = swap.items if swap is not None else 0

    def __len__(self) -> int:
        return len(self.held) + self._count

    @property
    def swapped(self) -> int:
        """How many items are in the files only."""
        return self._count

    def is_swapped(self, key: bytes) -> bool:
        """Whether the item of this key is in the files only."""
        if not self._count:
            return False
        swapped = self._swapped.get(priority_of(key))
        return swapped is not None and swapped.holds(key)

    def may_have_any(self, keys: Collection[bytes]) -> bool:
        """Whether one of these items may be in the files only. Fast where all are behind those, as what is put mostly is."""
        if not self._count or min(keys) > max([swapped.last for swapped in self._swapped.values()]):
            return False
        return any(map(self.is_swapped, keys))

    def get(self, key: bytes) -> Entry | None:
        """The item of this key, None if it is not here. Reads files for one that is there only."""
        entry = self.held.get(key)
        if entry is None and self._count and (swapped := self._swapped.get(priority_of(key))) is not None:
            entry = swapped.find(key)
        return entry

    def pop_first(self) -> tuple[bytes, Entry]:
        """Remove the first item and return it with its key. Raises what `SwappedItems.take` does; then nothing is removed."""
        if self._count:
            self._fill()
        return self.held.pop_first()

    def note_handed_out(self, keys: list[bytes]) -> None:
        """Items were handed out, or were before the log was opened: what is behind them never was."""
        if self._swap is None or not keys:
            return
        noted = self._handed_out
        last = max(keys)
        one = len(keys) == 1 or priority_of(min(keys)) == priority_of(last)
        for key in [last] if one else keys:
            priority = priority_of(key)
            noted[priority] = max(noted.get(priority, b""), key)

    def note_gone(self, key: bytes) -> None:
        """An item was deleted that may be behind others that were not. Called in the order of keys while items are read again."""
        priority = priority_of(key)
        if key <= self._handed_out.get(priority, b""):
            return
        if priority in self._swapped or next(self.held.keys_between(key_of(priority, 0), key), None) is not None:
            self._gone.setdefault(priority, set()).add(key)

    def clear(self) -> None:
        """Remove all items."""
        self.held.clear()
        self._swapped.clear()
        self._gone.clear()
        self._count = 0

    def forget(self) -> None:
        """Remove all items, and what is known of those that were handed out."""
        self.clear()
        self._handed_out.clear()

    def firsts(self) -> Iterator[bytes]:
        """The key of the first item in memory, and of the first one in the files, of each priority that has some."""
        yield from [swapped.first.key for swapped in self._swapped.values()]
        for priority in self._priorities():
            yield next(self.held.keys_from(key_of(priority, 0)))

    def part(self, after: bytes | None, most: int) -> tuple[Iterable[Entry], bytes | None]:
        """The next items behind the key `after` (None: the first ones), in order, and the key after which to go on; None at the
        end. Up to `most` are copied; those in the files are read as they are asked for, which needs no lock.
        """
        found = list(islice(self.held.keys_after(after), most))
        later = [one for one in self._swapped.values() if after is None or one.last > after]
        swapped = min(later, key=lambda one: one.last, default=None)
        if swapped is not None:
            begin = swapped.first.key if after is None else max(swapped.first.key, after + b"\0")
            before = [key for key in found if key < begin]
            if not before:
                return self._between(swapped, begin), swapped.last
            found = before
        return [self.held[key] for key in found], found[-1] if found else None

    def _between(self, swapped: SwappedItems, begin: bytes) -> Iterable[Entry]:
        last = swapped.last
        beside = [self.held[key] for key in self.held.keys_between(begin, last)]
        return merge(beside, swapped.entries(begin, last), key=_key_of)

    def trim(self, deliveries: Collection[bytes], delayed: OrderedItems) -> None:
        """If more items are in memory than should be, let some go until half of `Swap.items` are left: the middle of each
        priority, the last priority first.

        `deliveries` are the keys of items that were given back or delayed. `delayed` are those that are not due yet.
        """
        if self._swap is None:
            return
        if len(self.held) <= self._most:
            self._most = max(self._swap.items, min(self._most, 2 * len(self.held)))
            return
        least = max(1, self._swap.items // _LEAST)
        keys = self.held.in_order()
        wish, end = len(keys) - self._swap.items // 2, len(keys)
        while end and wish > 0:
            priority = priority_of(keys[end - 1])
            begin = bisect_left(keys, key_of(priority, 0), 0, end)
            wish -= self._let_go(priority, keys[begin:end], wish, least, deliveries, delayed)
            end = begin
        # Where few could go, as many more have to come before the next look at them.
        self._most = max(self._swap.items, 3 * len(self.held) // 2)

    def _let_go(
        self,
        priority: int,
        keys: list[bytes],
        most: int,
        least: int,
        deliveries: Collection[bytes],
        delayed: OrderedItems,
    ) -> int:
        """Let up to `most` items of a priority go, whose items in memory have these keys. Returns how many went."""
        assert self._swap is not None
        swapped = self._swapped.get(priority)
        after = self._handed_out.get(priority, b"")
        if swapped is not None:
            if after > swapped.last:
                return 0  # an item between was handed out, so there is no one stretch that never was
            after = swapped.last
        keys = keys[bisect_right(keys, after) :]
        stop = len(keys) - least
        start = max(least, stop - most) if swapped is None else 0
        stop = min(stop, start + most)
        if stop <= start:
            return 0
        entries = [self.held[key] for key in keys[start:]]
        stamps = [entry.timestamp for entry in entries]
        is_plain = stamps == sorted(stamps) and not deliveries and not any(map(_expires_of, entries))
        going = entries[: stop - start]
        if not is_plain or (swapped is not None and not swapped.follows(going[0])):  # hardly ever
            going = self._movable(going, entries[stop - start :], swapped, deliveries)
        if not going:
            return 0
        if swapped is None:
            swapped = self._swapped[priority] = SwappedItems(self._swap.stored, going)
            begin = going[0].key
        else:
            begin = swapped.last
            swapped.extend(going)
        self.held.remove_all([entry.key for entry in going])
        self._count += len(going)
        if len(going) < stop - start:
            swapped.odd.update(key for key in keys if begin < key < swapped.last and key in self.held)
        swapped.odd.update(delayed.keys_between(begin, swapped.last))
        swapped.odd.update(key for key in self._gone.get(priority, ()) if begin < key < swapped.last)
        return len(going)

    def _movable(
        self, entries: list[Entry], behind: list[Entry], swapped: SwappedItems | None, deliveries: Collection[bytes]
    ) -> list[Entry]:
        """Those of `entries` that may go: they do not expire, were not given back, and are in the log where their keys say."""
        later = min(entry.timestamp for entry in behind)
        going: list[Entry] = []
        for entry in reversed(entries):
            if not entry.expires and entry.key not in deliveries and entry.timestamp <= later:
                going.append(entry)
                later = entry.timestamp
        while swapped is not None and going and not swapped.follows(going[-1]):
            going.pop()
        going.reverse()
        return going

    def _fill(self) -> None:
        """Read items again if the first one is in the files only."""
        assert self._swap is not None
        priority = min(self._swapped)
        swapped = self._swapped[priority]
        if self.held and self.held.first() < swapped.first.key:
            return
        taken = swapped.take(max(1, self._swap.items // 4))
        self._count -= len(taken)
        if not swapped.count:
            del self._swapped[priority]
        self.held.add_new({entry.key: entry for entry in taken})
        self._most = max(self._swap.items, len(self.held))

    def _priorities(self) -> Iterator[int]:
        """The priorities of the items in memory, in the order of takes."""
        key = next(self.held.keys_after(None), None)
        while key is not None:
            priority = priority_of(key)
            yield priority
            key = next(self.held.keys_from(key_of(priority + 1, 0)), None)
