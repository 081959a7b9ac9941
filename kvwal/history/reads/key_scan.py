"""Reads of the keys that a caller wants, from the files of the logs: other entries are dropped block by block."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from kvwal.entry import DataEntry, Entry, entry_identity, is_live
from kvwal.history.reads.pinned_log import PinnedLog, pin_log
from kvwal.history.reads.range_reader import live_entries
from kvwal.history.reads.stable_read import read_settled
from kvwal.history.reads.tail_reader import read_log
from kvwal.key_class import DROPPED
from kvwal.ports.disk import Disk
from kvwal.structures.destroyed import merged_latest, to_marks
from kvwal_archive.layout import Place

Wanted = Callable[[bytes], object]
"""A test of a key's bytes, true of the keys that are read."""
KeySpan = tuple[bytes, bytes]
"""The text keys from the first bytes on and below the second ones."""
Piece = Sequence[Entry | DataEntry]
_PIECE_ENTRIES = 5_000
_MOST_SPANS = 16
"""Spans that are looked for one by one in the logs of several nodes. For more of them all between first and last is read."""


class Pieces(Protocol):
    """Entries in the order of their keys, in pieces. They can be iterated several times, and are the same each time."""

    def __iter__(self) -> Iterator[Piece]:
        """All entries."""
        ...

    def within(self, spans: Sequence[KeySpan]) -> Iterable[Piece]:
        """The entries with keys in these spans, which are sorted and apart. Other entries are not read where that is possible."""
        ...


class ReadPieces:
    """Entries that are in memory, as `Pieces`."""

    def __init__(self, entries: Piece) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[Piece]:
        return iter([self._entries])

    def within(self, spans: Sequence[KeySpan]) -> Iterable[Piece]:
        """See `Pieces.within`."""
        for span in spans:
            begin, end = (bisect_left(self._entries, key, key=attrgetter("key")) for key in span)
            yield self._entries[begin:end]


@contextmanager
def open_wanted(
    disk: Disk, root: Path, find: Callable[[], Sequence[Place]], wanted: Wanted, now_ms: int
) -> Iterator[Pieces]:
    """The live entries whose keys are text and wanted, over the logs at the places that `find` finds.

    The entries of one log are read when they are iterated, with bounded memory, and show the log as it is now. Those of several
    nodes are read into memory when they are first iterated. A part of them is read anew, as it is then.
    """
    with ExitStack() as opened:
        yield read_settled(disk, root, find, lambda places: _open(disk, root, places, find, wanted, now_ms, opened))


def _open(
    disk: Disk,
    root: Path,
    places: Sequence[Place],
    find: Callable[[], Sequence[Place]],
    wanted: Wanted,
    now_ms: int,
    opened: ExitStack,
) -> Pieces:
    if len(places) == 1:
        log = opened.enter_context(pin_log(disk, root, places[0], lambda: _LatestWanted(wanted)))
        return _WantedInLog(log, wanted, _shown_of(log, places[0].node, now_ms))
    return _WantedInLogs(disk, root, find, wanted, now_ms)


class _LatestWanted:
    """A sink that keeps the latest entry of every wanted key of the class `str`, deletes included, and the marks of the map.

    A snapshot has each key once, in order. So only the keys of the segments, which are few, go into a dict.
    """

    key: bytes | None = None

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._snapshot: list[Entry] = []
        self._tail: dict[bytes, Entry] = {}
        self._marks: dict[bytes, Entry] = {}

    @property
    def marks(self) -> list[Entry]:
        """The marks of a destroyed map, sorted."""
        return [self._marks[key] for key in sorted(self._marks)]

    def take(self, first: int, entries: list[Entry]) -> None:
        """See `tail_reader.Sink.take`."""
        self._tail.update({entry.key: entry for entry in _of(self._wanted, entries)})
        self._marks.update({entry.key: entry for entry in entries if entry.key_class == DROPPED})

    def take_snapshot(self, last: int, entries: list[Entry]) -> None:
        """See `tail_reader.Sink.take_snapshot`."""
        self._snapshot += _of(self._wanted, entries)
        self._marks.update({entry.key: entry for entry in entries if entry.key_class == DROPPED})

    def in_order(self) -> list[Entry]:
        """See `pin_log.LatestSink.in_order`. The marks come first: their class is before `str`."""
        tail = self._tail
        kept = [entry for entry in self._snapshot if entry.key not in tail] if tail else self._snapshot
        return [*self.marks, *sorted([*kept, *tail.values()], key=attrgetter("key"))]


class _WantedInLog:
    """The live entries of one log whose keys are wanted, as `Pieces`: read anew by each iteration."""

    def __init__(self, log: PinnedLog, wanted: Wanted, shown: Callable[[Entry], bool]) -> None:
        self._log = log
        self._wanted = wanted
        self._shown = shown

    def __iter__(self) -> Iterator[Piece]:
        for block in self._log.blocks(lambda entries: _of(self._wanted, entries)):
            yield [entry for entry in block if self._shown(entry)]

    def within(self, spans: Sequence[KeySpan]) -> Iterable[Piece]:
        """See `Pieces.within`."""
        for low, high in spans:
            entries = self._log.between(("str", low), ("str", high))
            live = (entry for entry in entries if self._wanted(entry.key) and self._shown(entry))
            while piece := list(islice(live, _PIECE_ENTRIES)):
                yield piece


class _WantedInLogs:
    """The live entries of several nodes' logs whose keys are wanted, as `Pieces`."""

    def __init__(
        self, disk: Disk, root: Path, find: Callable[[], Sequence[Place]], wanted: Wanted, now_ms: int
    ) -> None:
        self._disk = disk
        self._root = root
        self._find = find
        self._wanted = wanted
        self._now_ms = now_ms
        self._read: Piece | None = None

    def __iter__(self) -> Iterator[Piece]:
        if self._read is None:
            self._read = read_settled(self._disk, self._root, self._find, self._latest)
        return iter([self._read])

    def within(self, spans: Sequence[KeySpan]) -> Iterable[Piece]:
        """See `Pieces.within`."""
        if self._read is not None:
            return ReadPieces(self._read).within(spans)
        asked = spans if len(spans) <= _MOST_SPANS else [(spans[0][0], spans[-1][1])]

        def read(places: Sequence[Place]) -> Piece:
            parts = (
                live_entries(self._disk, self._root, places, ("str", low), ("str", high), self._now_ms)
                for low, high in asked
            )
            return [entry for entry in chain.from_iterable(parts) if self._wanted(entry.key)]

        found = read_settled(self._disk, self._root, self._find, read)
        return [found] if asked is spans else ReadPieces(found).within(spans)

    def _latest(self, places: Sequence[Place]) -> Piece:
        logs = []
        for place in sorted(places, key=attrgetter("node")):
            sink = read_log(self._disk, self._root, place, lambda: _LatestWanted(self._wanted)).sink
            logs.append((place.node, {entry_identity(entry): entry for entry in sink.in_order()}))
        live = [entry for entry in merged_latest(logs).values() if is_live(entry, self._now_ms)]
        return sorted(live, key=attrgetter("key"))


def _of(wanted: Wanted, entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if wanted(entry.key) and entry.key_class == "str"]


def _shown_of(log: PinnedLog, node: str, now_ms: int) -> Callable[[Entry], bool]:
    """Whether an entry of this log is live, and one of the map."""
    marks = to_marks((node, mark) for mark in log.marks())
    return lambda entry: is_live(entry, now_ms) and marks.shows(node, entry)
