"""Table of the items of a business: which can be taken, and which a taker has. It holds keys, not values, and does no I/O.

Memory and logs hold the items. The table is the index of one member, which decides on all takes of a business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from sortedcontainers import SortedSet

from kvwal.key_class import structure_of
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


class QueueTable:
    """The items of the queues of one business. `elapsed` gives monotonic seconds, by which visibility timeouts are judged."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self.blocks: dict[str, Block] = {}
        self.last_position = 0
        self._elapsed = elapsed
        self._ready: dict[str, SortedSet] = {}
        self._taken: dict[str, set[bytes]] = {}

    def add(self, claims: Iterable[Claim]) -> None:
        """Items that can be taken from now on. An item that a taker has stays with the taker."""
        for key_class, key in claims:
            self.last_position = max(self.last_position, position_of(key))
            if key not in self._taken.get(key_class, ()):
                self._ready.setdefault(key_class, SortedSet()).add(key)

    def take(self, structure: str, most: int) -> list[Claim]:
        """Hand out up to `most` items, the first ones. Each is the caller's until `forget` or `give_back`."""
        key_class = item_class(structure)
        ready = self._ready.get(key_class)
        keys = [ready.pop(0) for _ in range(min(most, len(ready)))] if ready else []
        self._taken.setdefault(key_class, set()).update(keys)
        return [(key_class, key) for key in keys]

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Return items to their places. Items that nobody has any more are not there."""
        for key_class, key in claims:
            taken = self._taken.get(key_class, set())
            if key in taken:
                taken.discard(key)
                self._ready.setdefault(key_class, SortedSet()).add(key)

    def forget(self, claims: Iterable[Claim]) -> None:
        """The items are gone: deleted, or expired."""
        for key_class, key in claims:
            self._taken.get(key_class, set()).discard(key)
            self._ready.get(key_class, SortedSet()).discard(key)

    def keep(self, block: str, number: int, claims: list[Claim], visibility: float) -> None:
        """Items that were handed out belong to a block from now on, as its take `number`."""
        known = self.blocks.setdefault(block, Block(visibility, 0.0))
        known.takes[number] = claims
        known.ends = self._elapsed() + known.visibility

    def restore(self, block: str, takes: dict[int, list[Claim]], visibility: float) -> None:
        """As `keep`, of a block that the member before this one kept. Items that are gone are left out."""
        for number, claims in takes.items():
            there = [claim for claim in claims if claim[1] in self._ready.get(claim[0], ())]
            for key_class, key in there:
                self._ready[key_class].discard(key)
                self._taken.setdefault(key_class, set()).add(key)
            self.keep(block, number, there, visibility)

    def renew(self, block: str) -> bool:
        """A block was heard of. Returns whether its items are still its own."""
        known = self.blocks.get(block)
        if known is None:
            return False
        known.ends = self._elapsed() + known.visibility
        return True

    def end(self, block: str) -> None:
        """A block has ended: the items that it still has go back."""
        known = self.blocks.pop(block, None)
        if known is not None:
            self.give_back(known.claims())

    def end_take(self, block: str, number: int) -> None:
        """As `end`, of one take of a block."""
        if block in self.blocks:
            self.give_back(self.blocks[block].takes.pop(number, ()))

    def expired(self) -> list[str]:
        """The blocks whose visibility timeout has passed. One that commits at this moment is not among them."""
        now = self._elapsed()
        return [name for name, block in self.blocks.items() if block.ends <= now and not block.is_committing]

    def keys(self, structure: str, after: bytes, most: int) -> list[Claim]:
        """Up to `most` items behind a key that can be taken, in order."""
        key_class = item_class(structure)
        ready = self._ready.get(key_class)
        found: Iterator[bytes] = iter(()) if ready is None else ready.irange(after or None, inclusive=(False, True))
        return [(key_class, key) for key in islice(found, most)]

    def count(self, structure: str) -> tuple[int, int]:
        """The number of items that can be taken, and of those that takers have."""
        key_class = item_class(structure)
        return len(self._ready.get(key_class, ())), len(self._taken.get(key_class, ()))

    def structures(self) -> list[str]:
        """The structures that have items."""
        classes = {key_class for table in (self._ready, self._taken) for key_class, keys in table.items() if keys}
        return sorted(structure_of(key_class) for key_class in classes)
