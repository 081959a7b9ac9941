"""Key index: keys of a table in sorted chunks, built in the background while the table keeps changing."""

from __future__ import annotations

import gc
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from kvwal.entry import Entry
from kvwal.ports.locks import give_way

CHUNK_KEYS = 1000
"""About how many keys a chunk has. One insertion moves the keys of a chunk, and one step of a build sorts a chunk."""
_SLICE_KEYS = 2000
_SAMPLE = 499

Table = dict[bytes, Entry]
Keys = tuple[bytes, ...]
"""Python's garbage collector looks once at a tuple of bytes, and then leaves it out. It looks at each key of a list again and
again, while all threads wait.
"""


class KeyOrder:
    """A sorted set of keys. Threads that share one take a lock for each call.

    A chunk is a tuple until its first change: see `Keys`.
    """

    def __init__(self, chunks: Iterable[Sequence[bytes]] = ()) -> None:
        """Each of `chunks` is sorted, and the chunks are in order."""
        self._chunks: list[Sequence[bytes]] = [chunk for chunk in chunks if chunk]
        self._lasts = [chunk[-1] for chunk in self._chunks]

    def add(self, key: bytes) -> None:
        """Add a key, unless it is there."""
        at = bisect_left(self._lasts, key)
        if at == len(self._chunks):
            if not at:
                self._chunks.append([key])
                self._lasts.append(key)
                return
            at -= 1
        position = bisect_left(self._chunks[at], key)
        if position < len(self._chunks[at]) and self._chunks[at][position] == key:
            return
        chunk = self._changeable(at)
        chunk.insert(position, key)
        self._lasts[at] = chunk[-1]
        if len(chunk) > 2 * CHUNK_KEYS:
            self._chunks[at : at + 1] = [chunk[:CHUNK_KEYS], chunk[CHUNK_KEYS:]]
            self._lasts[at : at + 1] = [chunk[CHUNK_KEYS - 1], chunk[-1]]

    def discard(self, key: bytes) -> None:
        """Remove a key, if it is there."""
        at = bisect_left(self._lasts, key)
        if at == len(self._chunks):
            return
        position = bisect_left(self._chunks[at], key)
        if self._chunks[at][position] != key:
            return
        chunk = self._changeable(at)
        del chunk[position]
        if chunk:
            self._lasts[at] = chunk[-1]
        else:
            del self._chunks[at], self._lasts[at]

    def _changeable(self, at: int) -> list[bytes]:
        chunk = self._chunks[at]
        if not isinstance(chunk, list):
            chunk = self._chunks[at] = list(chunk)
        return chunk

    def following(self, start: bytes, stop: bytes | None, most: int) -> list[bytes]:
        """Up to `most` keys from `start` to before `stop` (None: to the end)."""
        keys: list[bytes] = []
        at = bisect_left(self._lasts, start)
        while at < len(self._chunks) and len(keys) < most:
            chunk = self._chunks[at]
            begin = bisect_left(chunk, start) if not keys else 0
            end = len(chunk) if stop is None else bisect_left(chunk, stop)
            keys += chunk[begin : min(end, begin + most - len(keys))]
            if end < len(chunk):
                break
            at += 1
        return keys

    def preceding(self, start: bytes, stop: bytes | None, most: int) -> list[bytes]:
        """Up to `most` keys from `start` to before `stop` (None: to the end), the greatest first."""
        keys: list[bytes] = []
        at = len(self._chunks) if stop is None else bisect_left(self._lasts, stop) + 1
        at = min(at, len(self._chunks)) - 1
        while at >= 0 and len(keys) < most:
            chunk = self._chunks[at]
            begin = bisect_left(chunk, start)
            end = len(chunk) if stop is None else bisect_left(chunk, stop)
            keys += reversed(chunk[max(begin, end - most + len(keys)) : end])
            if begin:
                break
            at -= 1
        return keys


class Overlay(Table):
    """A table of changes in front of a base table whose keys are being listed, so that the base keeps its keys meanwhile.

    It is used like the base table, under the same lock.
    """

    def __init__(self, base: Table) -> None:
        super().__init__()
        self._base = base
        self._size = len(base)
        self._deleted: set[bytes] = set()

    def get(self, key: bytes, default: Entry | None = None) -> Entry | None:  # type: ignore[override]
        """See `dict.get`."""
        entry = super().get(key)
        if entry is not None:
            return entry
        return default if key in self._deleted else self._base.get(key, default)

    def __getitem__(self, key: bytes) -> Entry:
        entry = self.get(key)
        if entry is None:
            raise KeyError(key)
        return entry

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self.get(key) is not None

    def __len__(self) -> int:
        return self._size

    def __setitem__(self, key: bytes, entry: Entry) -> None:
        self._size += key not in self
        super().__setitem__(key, entry)
        self._deleted.discard(key)

    def __delitem__(self, key: bytes) -> None:
        if key not in self:
            raise KeyError(key)
        self._size -= 1
        self._deleted.add(key)
        super().pop(key, None)

    def settle(self) -> Table:
        """Apply all changes to the base table, and return the base."""
        for key in self._deleted:
            self._base.pop(key, None)
        self._base.update(super().items())
        return self._base


def listed(table: Table) -> list[Keys]:
    """The keys of a table, in slices. The table must keep its keys meanwhile. Other threads run between two slices."""
    return list(_slices(iter(table)))


def _slices(rest: Iterator[bytes]) -> Iterator[Keys]:
    while part := tuple(islice(rest, _SLICE_KEYS)):
        yield part
        _let_others_run()


def build_order(parts: list[Keys]) -> KeyOrder:
    """The sorted set of the keys in these slices; the slices are emptied. A sample splits the keys into ranges to sort."""
    splits = sorted(key for part in parts for key in part[::_SAMPLE])
    ranges: list[list[bytes]] = [[] for _ in range(len(splits) + 1)]
    _age()  # while they are empty
    for index, part in enumerate(parts):
        for key in part:
            ranges[bisect_right(splits, key)].append(key)
        parts[index] = ()
        give_way()
    chunks: list[Keys] = []
    ranges.reverse()
    while ranges:
        keys = ranges.pop()
        keys.sort()
        chunks += [tuple(keys[start : start + CHUNK_KEYS]) for start in range(0, len(keys), CHUNK_KEYS)]
        if len(chunks) % 8 == 0:
            _let_others_run()
    return KeyOrder(chunks)


def _let_others_run() -> None:
    """Let other threads run between two steps of a build, after the garbage collector has looked at the new tuples."""
    if gc.isenabled():
        gc.collect(0)
    give_way()


def _age() -> None:
    """Make all objects old for the garbage collector. It looks at those only in a full collection, which is rare."""
    if gc.isenabled():
        gc.collect(1)
