"""Table of the items of a business: which can be taken, which a taker has, and which are not due yet. It holds keys, not values,
and does no I/O.

Memory and logs hold the items. The table is the index of one member, which decides on all takes of a business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from sortedcontainers import SortedSet

from kvwal.key_class import structure_of
from kvwal.structures.queue.capacity import Room
from kvwal.structures.queue.positions import item_class, position_of

Claim = tuple[str, bytes]
"""The class and the key of an item that a taker has."""


class Block:
    """The takes of one block of a client. The items of each are in `takes`, by the number of the take."""

    def __init__(self, visibility: float, ends: float) -> None:
        """At the time `ends` the items go back, unless the block is heard of: each time for `visibility` seconds more."""
        self.visibility = visibility
        self.ends = ends
        self.takes: dict[int, list[Claim]] = {}
        self.is_committing = False

    def claims(self) -> set[Claim]:
        """All items of the block."""
        return {claim for taken in self.takes.values() for claim in taken}


class _Items:
    """The items of one queue. Each is in one of `ready`, `taken` and `delayed`; `due` has moments of items (unix ms)."""

    def __init__(self) -> None:
        self.ready: SortedSet = SortedSet()
        self.taken: set[bytes] = set()
        self.delayed: SortedSet = SortedSet()  # (moment, key)
        self.due: dict[bytes, int] = {}
        self.sizes: dict[bytes, int] = {}
        self.size = 0

    def place(self, key: bytes, now_ms: int) -> None:
        """An item that no taker has: it can be taken, or waits until it is due."""
        due = self.due.get(key, 0)
        if due > now_ms:
            self.ready.discard(key)
            self.delayed.add((due, key))
        else:
            if due:
                self.delayed.discard((due, key))
                del self.due[key]
            self.ready.add(key)

    def set_due(self, key: bytes, due: int, now_ms: int) -> None:
        """An item is due at another moment: see `place`. One that is not there will be, or is taken."""
        before = self.due.pop(key, 0)
        waited = before > 0 and (before, key) in self.delayed
        if waited:
            self.delayed.discard((before, key))
        if due > now_ms:
            self.due[key] = due
        if waited or key in self.ready:
            self.place(key, now_ms)

    def end_delays(self, now_ms: int) -> None:
        """Items that are due by now can be taken."""
        while self.delayed and self.delayed[0][0] <= now_ms:
            _, key = self.delayed.pop(0)
            self.due.pop(key, None)
            self.ready.add(key)

    def forget(self, key: bytes) -> None:
        """An item is gone."""
        self.taken.discard(key)
        self.ready.discard(key)
        self.size -= self.sizes.pop(key, 0)
        if due := self.due.pop(key, 0):
            self.delayed.discard((due, key))

    def every(self) -> Iterator[bytes]:
        """The keys of all items."""
        yield from self.ready
        yield from self.taken
        for _, key in self.delayed:
            yield key

    def __contains__(self, key: bytes) -> bool:
        return key in self.ready or key in self.taken or (self.due.get(key, 0), key) in self.delayed

    def __len__(self) -> int:
        return len(self.ready) + len(self.taken) + len(self.delayed)


_NONE = _Items()
"""The items of a queue that never had one."""


class QueueTable:
    """The items of the queues of one business. `elapsed` gives monotonic seconds, by which visibility timeouts are judged,
    `wall_ms` unix ms, by which delays are.
    """

    def __init__(self, elapsed: Callable[[], float], wall_ms: Callable[[], int]) -> None:
        self.blocks: dict[str, Block] = {}
        self.last_position = 0
        self._elapsed = elapsed
        self._wall_ms = wall_ms
        self._queues: dict[str, _Items] = {}

    def add(self, claims: Iterable[Claim]) -> None:
        """Items that no taker has are there from now on. An item that a taker has stays with the taker."""
        now = self._wall_ms()
        for key_class, key in claims:
            self.last_position = max(self.last_position, position_of(key))
            items = self._of(key_class)
            if key not in items.taken:
                items.place(key, now)

    def delay(self, due: dict[Claim, int]) -> None:
        """Items are not handed out before these moments (unix ms). To be called before they are added, or given back."""
        now = self._wall_ms()
        for (key_class, key), moment in due.items():
            self._of(key_class).set_due(key, moment, now)

    def take(self, structure: str, most: int, *, delayed: bool = False) -> list[Claim]:
        """Hand out up to `most` items, the first ones. Each is the caller's until `forget` or `give_back`.

        With `delayed` also those that are not due yet, after the others.
        """
        key_class = item_class(structure)
        items = self._current(key_class)
        if items is None:
            return []
        keys = [items.ready.pop(0) for _ in range(min(most, len(items.ready)))]
        if delayed:
            keys += [items.delayed.pop(0)[1] for _ in range(min(most - len(keys), len(items.delayed)))]
        items.taken.update(keys)
        return [(key_class, key) for key in keys]

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Return items to their places. Items that nobody has any more are not there."""
        now = self._wall_ms()
        for key_class, key in claims:
            items = self._of(key_class)
            if key in items.taken:
                items.taken.discard(key)
                items.place(key, now)

    def forget(self, claims: Iterable[Claim]) -> None:
        """The items are gone: deleted, or expired."""
        for key_class, key in claims:
            self._of(key_class).forget(key)

    def keep(self, block: str, number: int, claims: list[Claim], visibility: float) -> None:
        """Items that were handed out belong to a block from now on, as its take `number`."""
        known = self.blocks.setdefault(block, Block(visibility, 0.0))
        known.takes[number] = claims
        known.ends = self._elapsed() + known.visibility

    def restore(self, block: str, takes: dict[int, list[Claim]], visibility: float) -> None:
        """As `keep`, of a block that the member before this one kept. Items that are gone are left out."""
        for number, claims in takes.items():
            there = [(key_class, key) for key_class, key in claims if key in self._of(key_class).ready]
            for key_class, key in there:
                self._of(key_class).ready.discard(key)
                self._of(key_class).taken.add(key)
            self.keep(block, number, there, visibility)

    def renew(self, block: str) -> bool:
        """A block was heard of. Returns whether its items are still its own: not once its visibility timeout has passed."""
        known, now = self.blocks.get(block), self._elapsed()
        if known is None or (known.ends <= now and not known.is_committing):
            return False
        known.ends = now + known.visibility
        return True

    def end_take(self, block: str, number: int) -> None:
        """One take of a block has ended: its items go back."""
        if block in self.blocks:
            self.give_back(self.blocks[block].takes.pop(number, ()))

    def expired(self) -> list[str]:
        """The blocks whose visibility timeout has passed. One that commits at this moment is not among them."""
        now = self._elapsed()
        return [name for name, block in self.blocks.items() if block.ends <= now and not block.is_committing]

    def keys(self, structure: str, after: bytes, most: int) -> list[Claim]:
        """Up to `most` items behind a key that can be taken, in order."""
        key_class = item_class(structure)
        items = self._current(key_class)
        if items is None:
            return []
        return [(key_class, key) for key in islice(items.ready.irange(after or None, inclusive=(False, True)), most)]

    def all_of(self, structure: str) -> list[Claim]:
        """All items of a queue, those of takers and the delayed ones among them."""
        key_class = item_class(structure)
        return [(key_class, key) for key in self._queues.get(key_class, _NONE).every()]

    def count(self, structure: str) -> tuple[int, int, int]:
        """The number of items that can be taken, of those that takers have, and of those that are not due yet."""
        items = self._current(item_class(structure))
        return (0, 0, 0) if items is None else (len(items.ready), len(items.taken), len(items.delayed))

    def next_due(self, structure: str) -> int:
        """When the next delayed item can be taken (unix ms); 0 if none is delayed."""
        items = self._queues.get(item_class(structure))
        return int(items.delayed[0][0]) if items is not None and items.delayed else 0

    def note_sizes(self, sizes: dict[Claim, int]) -> None:
        """The bytes of the values of items. Those that are not there any more are left out."""
        for (key_class, key), size in sizes.items():
            items = self._of(key_class)
            if key in items:  # it may have been taken since its size was read
                items.size += size - items.sizes.get(key, 0)
                items.sizes[key] = size

    def size_of(self, claim: Claim) -> int:
        """The bytes of the value of an item; 0 if they are not known."""
        items = self._queues.get(claim[0])
        return 0 if items is None else items.sizes.get(claim[1], 0)

    def unsized(self, structure: str) -> list[Claim]:
        """The items of a queue whose sizes are not known."""
        key_class = item_class(structure)
        items = self._queues.get(key_class, _NONE)
        return [] if len(items.sizes) == len(items) else [(key_class, k) for k in items.every() if k not in items.sizes]

    def room(self, structure: str) -> Room:
        """The room that all items of a queue take, those of takers and the delayed ones among them."""
        items = self._queues.get(item_class(structure), _NONE)
        return Room(len(items), items.size)

    def structures(self) -> list[str]:
        """The structures that have items."""
        return sorted(structure_of(key_class) for key_class, items in self._queues.items() if len(items))

    def _of(self, key_class: str) -> _Items:
        return self._queues.setdefault(key_class, _Items())

    def _current(self, key_class: str) -> _Items | None:
        items = self._queues.get(key_class)
        if items is not None and items.delayed:
            items.end_delays(self._wall_ms())
        return items
