"""Where the latest entry of each key of a segment is: a sorted index from identities to blocks, which grows with the segment.

This module imports neither asyncio nor Arrow, so that `kvwal get` starts fast.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import accumulate, groupby, islice
from operator import itemgetter
from typing import NamedTuple

from kvwal.entry import Entry
from kvwal.log.files.format import Block

Identity = tuple[str, bytes]
IdentityRange = tuple[Identity, Identity]
"""The identities from the first one to before the second one."""
_Place = tuple[bytes, int]
"""An identity as `ordered` gives it, and the number of a block that has it."""
_MOST_FRESH, _PIECE = 200_000, 10_000
"""Places that are in lists of Python: some tens of megabytes, and a few."""
_ALIKE = 4
"""Sorted lists of about the same size that become one."""


class BlockPlace(NamedTuple):
    """A block: its offset in the segment, and the number of entries before it."""

    offset: int
    before: int


class SegmentKeys:
    """The keys of one segment, each with the last block that has it. Blocks are added in their order, from the first one on."""

    def __init__(self, salt: int, start: int) -> None:
        """`salt` is that of the segment's header, `start` the offset of its first block."""
        self.salt = salt
        self.end = start
        """The offset after the last block that was added."""
        self.count = 0
        """The number of entries before that."""
        self.last: Block | None = None
        """The last block that was added, or the seal; None before the first. It is kept without its payload."""
        self.is_sealed = False
        self._offsets = array("Q")
        self._counts = array("Q")
        self._sorted: list[_SortedPlaces] = []
        self._fresh: list[_Place] = []

    @property
    def held_bytes(self) -> int:
        """About how much memory they take."""
        return 2 * self._offsets.itemsize * len(self._offsets) + sum(places.held_bytes for places in self._sorted)

    def add(self, block: Block, entries: Iterable[Entry], count: int) -> None:
        """Add the block at `end`, which has `count` entries."""
        number = len(self._offsets)
        self._fresh += [(ordered((entry.key_class, entry.key)), number) for entry in entries]
        self._offsets.append(block.offset)
        self._counts.append(self.count)
        self.end, self.count = block.end, self.count + count
        self.last = block._replace(payload=b"")
        if len(self._fresh) >= _MOST_FRESH:
            self.settle()

    def settle(self, *, seal: Block | None = None) -> None:
        """Sort the keys of the blocks that were added. Four lists of about the same size become one, so that few are searched.

        With `seal`, no block comes after: of neighbours in the same block the first one stands for all.
        """
        if seal is not None:
            self.last, self.is_sealed = seal._replace(payload=b""), True
            places = _last_of_each(merge(*self._sorted, sorted(self._fresh)))
            firsts = (next(run) for _, run in groupby(places, key=itemgetter(1)))
            self._sorted, self._fresh = [_SortedPlaces(firsts, sparse=True)], []
        elif self._fresh:
            self._sorted.append(_SortedPlaces(dict(sorted(self._fresh)).items()))
            self._fresh = []
            while len(self._sorted) >= _ALIKE and len(self._sorted[-_ALIKE]) <= _ALIKE * len(self._sorted[-1]):
                self._sorted[-_ALIKE:] = [_SortedPlaces(_last_of_each(merge(*self._sorted[-_ALIKE:])))]

    def blocks(self, ranges: Iterable[IdentityRange]) -> list[BlockPlace]:
        """The blocks that may have the latest entries of identities of these ranges, in their order. Those that were added since
        `settle` are not among them.
        """
        bounds = [(ordered(low), ordered(high)) for low, high in ranges]
        numbers = {number for low, high in bounds for places in self._sorted for number in places.between(low, high)}
        return [BlockPlace(self._offsets[number], self._counts[number]) for number in sorted(numbers)]

    def following(self, low: bytes, most: int) -> list[bytes]:
        """Identities after `low`, sorted, both as `ordered` gives them: up to `most` of those that are noted."""
        return sorted({each for places in self._sorted for each in places.following(low, most)})[:most]


def _last_of_each(places: Iterable[_Place]) -> Iterator[_Place]:
    """Of sorted places those with the last block of each identity: a key that was put a million times is there once."""
    before: _Place | None = None
    for place in places:
        if before is not None and before[0] != place[0]:
            yield before
        before = place
    if before is not None:
        yield before


class _SortedPlaces:
    """Sorted places, whose identities are in one piece of memory: a million of them take some tens of megabytes.

    Of places that are `sparse` each stands for those up to the next one, too.
    """

    def __init__(self, places: Iterable[_Place], *, sparse: bool = False) -> None:
        self._sparse = sparse
        self._identities = bytearray()
        self._ends, self._blocks = array("Q"), array("Q")
        left = iter(places)
        while piece := list(islice(left, _PIECE)):
            lengths = [len(identity) for identity, _ in piece]
            lengths[0] += len(self._identities)
            self._ends.extend(accumulate(lengths))
            self._identities += b"".join([identity for identity, _ in piece])
            self._blocks.extend([number for _, number in piece])

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def held_bytes(self) -> int:
        """The memory that they take."""
        return len(self._identities) + 2 * self._blocks.itemsize * len(self._blocks)

    def __iter__(self) -> Iterator[_Place]:
        return ((self._identity(at), number) for at, number in enumerate(self._blocks))

    def between(self, low: bytes, high: bytes) -> Iterable[int]:
        """The numbers of the blocks that may have identities from `low` to before `high`."""
        places = range(len(self))
        begin = max(0, bisect_left(places, low, key=self._identity) - self._sparse)
        return self._blocks[begin : bisect_left(places, high, key=self._identity)]

    def following(self, low: bytes, most: int) -> Iterator[bytes]:
        """Up to `most` identities after `low`."""
        begin = bisect_right(range(len(self)), low, key=self._identity)
        return map(self._identity, range(begin, min(begin + most, len(self))))

    def _identity(self, at: int) -> bytes:
        return bytes(self._identities[self._ends[at - 1] if at else 0 : self._ends[at]])


def ordered(identity: Identity) -> bytes:
    """An identity as bytes, which have the order of identities: two zeros end the class, and no class has them so."""
    key_class, key = identity
    return b"%s\0\0%s" % (key_class.encode().replace(b"\0", b"\0\xff"), key)


def identity_of(text: bytes) -> Identity:
    """The identity that `ordered` gave as these bytes."""
    key_class, _, key = text.partition(b"\0\0")
    return key_class.replace(b"\0\xff", b"\0").decode(), key
