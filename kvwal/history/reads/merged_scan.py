"""The merge of several logs in the order of identity, with bounded memory.

The largest log is merged while it is read. The entries of all other logs go through an external sort. So memory holds about one
run of the sort, the segments of one log since its snapshot, and one piece of a snapshot, for any number and size of logs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from kvwal.entry import Entry, is_live, make_entry
from kvwal.history.reads.pinned_log import pin_log
from kvwal.history.reads.stable_read import read_settled
from kvwal.history.reads.tail_reader import Identity
from kvwal.log.files.external_sort import Runs, row_of
from kvwal.log.files.names import log_folder
from kvwal.log.reader import log_files
from kvwal.log.unlocked.sinks import LatestOfEach
from kvwal.ports.disk import Disk, scratch_folder
from kvwal.structures.destroyed import FoundMarks, Marks
from kvwal_archive.layout import Place

_Row = Any
"""The seven values of an entry, and the rank of its node."""


class _Merge(NamedTuple):
    """Sources of sorted rows, the nodes by their rank, and the marks in the logs."""

    sources: list[Iterator[_Row]]
    nodes: list[str]
    marks: Marks


def merged_in_order(disk: Disk, root: Path, find: Callable[[], Sequence[Place]], scratch: Path) -> Iterator[Entry]:
    """The latest entry of every key of a map over the logs at the places that `find` finds, sorted; deletes included.

    Entries that kvwal keeps for itself, and those of a map that was destroyed since, are left out. Of entries with the same
    timestamp the last node's wins, in the order of names. Temporary files are made in `scratch`. Each log is shown as it was when
    it was opened. Raises `CorruptLog`.
    """
    with ExitStack() as opened:
        merge = read_settled(disk, root, find, lambda places: _open(disk, root, places, scratch, opened))
        for _, versions in groupby(heapq.merge(*merge.sources, key=_order), key=_identity):
            *_, last = versions
            entry = make_entry(*last[:-1])
            if merge.marks.shows(merge.nodes[last[-1]], entry):
                yield entry


def live_in_order(disk: Disk, root: Path, find: Callable[[], Sequence[Place]], now_ms: int) -> Iterator[Entry]:
    """The entries of `merged_in_order` that are live at `now_ms`. Their temporary files go when the iterator ends."""
    with scratch_folder() as scratch:
        for entry in merged_in_order(disk, root, find, scratch):
            if is_live(entry, now_ms):
                yield entry


def _open(disk: Disk, root: Path, places: Sequence[Place], scratch: Path, opened: ExitStack) -> _Merge:
    """Sorted rows of these logs: the largest log, opened, and all others, read."""
    by_node = sorted(places, key=lambda place: place.node)
    ranked = sorted(enumerate(by_node), key=lambda pair: log_size(disk, root, pair[1]))
    runs = Runs(disk, scratch, key=_order)
    found = FoundMarks()
    for rank, place in ranked[:-1]:
        with pin_log(disk, root, place, LatestOfEach) as log:
            found.add(place.node, log.marks())
            for entry in chain.from_iterable(log.blocks()):
                runs.add(row_of(entry, rank))
    sources = [runs.in_order()]
    for rank, place in ranked[-1:]:
        largest = opened.enter_context(pin_log(disk, root, place, LatestOfEach))
        found.add(place.node, largest.marks())
        sources.append(row_of(entry, rank) for entry in chain.from_iterable(largest.blocks()))
    return _Merge(sources, [place.node for place in by_node], found.marks)


def log_size(disk: Disk, root: Path, place: Place) -> int:
    """Bytes of a log's segments and snapshots; files that vanish meanwhile do not count."""
    folder = log_folder(root, place)
    size = 0
    for file in chain(*log_files(disk, folder)):
        with suppress(FileNotFoundError):
            size += disk.size(folder / file.name)
    return size


def _order(row: _Row) -> tuple[str, bytes, int, int]:
    return row[1], row[0], row[5], row[7]


def _identity(row: _Row) -> Identity:
    return row[1], row[0]
