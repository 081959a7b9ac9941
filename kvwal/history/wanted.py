"""Reads of the keys that a caller wants, from the files of the logs: other entries are dropped block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from pathlib import Path

from archive.layout import Place
from kvwal.entry import DataEntry, Entry
from kvwal.history.moving import read_settled
from kvwal.history.open_log import OpenLog, open_log
from kvwal.history.tail_reader import read_log
from kvwal.ports.disk import Disk

Wanted = Callable[[bytes], object]
"""A test of a key's bytes, true of the keys that are read."""
Pieces = Iterable[Sequence[Entry | DataEntry]]
"""Entries in the order of their keys, in pieces. They can be iterated several times, and are the same each time."""


@contextmanager
def open_wanted(
    disk: Disk, root: Path, find: Callable[[], Sequence[Place]], wanted: Wanted, now_ms: int
) -> Iterator[Pieces]:
    """The live entries whose keys are text and wanted, over the logs at the places that `find` finds, as they are now.

    The entries of one log are read when they are iterated, with bounded memory. Those of several nodes are in memory.
    """
    with ExitStack() as opened:
        yield read_settled(disk, root, find, lambda places: _open(disk, root, places, wanted, now_ms, opened))


def _open(disk: Disk, root: Path, places: Sequence[Place], wanted: Wanted, now_ms: int, opened: ExitStack) -> Pieces:
    if len(places) == 1:
        log = opened.enter_context(open_log(disk, root, places[0], lambda: _LatestWanted(wanted)))
        return _WantedInLog(log, wanted, now_ms)
    nodes = [
        read_log(disk, root, place, lambda: _LatestWanted(wanted)).sink.in_order()
        for place in sorted(places, key=attrgetter("node"))
    ]
    return [sorted(_live(_newest(nodes), now_ms), key=attrgetter("key"))]


class _LatestWanted:
    """A sink that keeps the latest entry of every wanted key of the class `str`, deletes included.

    A snapshot has each key once, in order. So only the keys of the segments, which are few, go into a dict.
    """

    key: bytes | None = None

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._snapshot: list[Entry] = []
        self._tail: dict[bytes, Entry] = {}

    def take(self, first: int, entries: list[Entry]) -> None:
        """See `tail_reader.Sink.take`."""
        self._tail.update({entry.key: entry for entry in _of(self._wanted, entries)})

    def take_snapshot(self, last: int, entries: list[Entry]) -> None:
        """See `tail_reader.Sink.take_snapshot`."""
        self._snapshot += _of(self._wanted, entries)

    def in_order(self) -> list[Entry]:
        """See `open_log.LatestSink.in_order`."""
        tail = self._tail
        kept = [entry for entry in self._snapshot if entry.key not in tail] if tail else self._snapshot
        return sorted([*kept, *tail.values()], key=attrgetter("key"))


class _WantedInLog:
    """The live entries of one log whose keys are wanted, as `Pieces`: read anew by each iteration."""

    def __init__(self, log: OpenLog, wanted: Wanted, now_ms: int) -> None:
        self._log = log
        self._wanted = wanted
        self._now_ms = now_ms

    def __iter__(self) -> Iterator[Sequence[Entry]]:
        for block in self._log.blocks(lambda entries: _of(self._wanted, entries)):
            yield _live(block, self._now_ms)


def _of(wanted: Wanted, entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if wanted(entry.key) and entry.key_class == "str"]


def _live(entries: Iterable[Entry], now_ms: int) -> list[Entry]:
    return [entry for entry in entries if not entry.deleted and not 0 < entry.expires <= now_ms]


def _newest(nodes: list[list[Entry]]) -> Iterable[Entry]:
    """The newest entry of each key. Of two entries of one moment that of the later node wins."""
    merged: dict[bytes, Entry] = {}
    for entries in nodes:
        for entry in entries:
            other = merged.get(entry.key)
            if other is None or entry.timestamp >= other.timestamp:
                merged[entry.key] = entry
    return merged.values()
