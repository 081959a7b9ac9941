"""The merge of several logs in the order of identity, with bounded memory.

The largest log is merged while it is read. The entries of all other logs go through an external sort. So memory holds about one
run of the sort, the segments of one log since its snapshot, and one piece of a snapshot, for any number and size of logs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from archive.layout import Place
from kvwal.entry import Entry, make_entry
from kvwal.history.moving import read_settled
from kvwal.history.open_log import open_log
from kvwal.history.tail_reader import Identity, LatestOfEach
from kvwal.log.files.names import log_folder
from kvwal.log.files.runs import Runs
from kvwal.log.reader import log_files
from kvwal.ports.disk import Disk

_Row = Any
"""The seven values of an entry, and the rank of its node."""


def merged_in_order(disk: Disk, root: Path, find: Callable[[], Sequence[Place]], scratch: Path) -> Iterator[Entry]:
    """The latest entry of every identity over the logs at the places that `find` finds, sorted; deletes included.

    Of entries with the same timestamp the last node's wins, in the order of names. Temporary files are made in `scratch`. Each
    log is shown as it was when it was opened. Raises `CorruptLog`.
    """
    with ExitStack() as opened:
        sources = read_settled(disk, root, find, lambda places: _open(disk, root, places, scratch, opened))
        for _, versions in groupby(heapq.merge(*sources, key=_order), key=_identity):
            *_, last = versions
            yield make_entry(*last[:-1])


def _open(disk: Disk, root: Path, places: Sequence[Place], scratch: Path, opened: ExitStack) -> list[Iterator[_Row]]:
    """Sorted rows of these logs: the largest log, opened, and all others, read."""
    ranked = list(enumerate(sorted(places, key=lambda place: place.node)))
    ranked.sort(key=lambda pair: _size(disk, root, pair[1]))
    runs = Runs(disk, scratch, key=_order)
    for rank, place in ranked[:-1]:
        with open_in_order(disk, root, place) as entries:
            for entry in entries:
                runs.add(_row(entry, rank))
    sources = [runs.in_order()]
    for rank, place in ranked[-1:]:
        largest = opened.enter_context(open_in_order(disk, root, place))
        sources.append(_row(entry, rank) for entry in largest)
    return sources


@contextmanager
def open_in_order(disk: Disk, root: Path, place: Place) -> Iterator[Iterator[Entry]]:
    """The latest entry of every identity of one log, sorted by identity, deletes included, as the log is now."""
    with open_log(disk, root, place, LatestOfEach) as log:
        yield chain.from_iterable(log.blocks())


def _size(disk: Disk, root: Path, place: Place) -> int:
    """Bytes of a log's files; those that vanish meanwhile do not count."""
    folder = log_folder(root, place)
    size = 0
    for file in chain(*log_files(disk, folder)):
        with suppress(FileNotFoundError):
            size += disk.size(folder / file.name)
    return size


def _row(entry: Entry, rank: int) -> _Row:
    return (
        entry.key, entry.key_class, entry.value, entry.value_class, entry.deleted, entry.timestamp, entry.expires, rank
    )  # fmt: skip


def _order(row: _Row) -> tuple[str, bytes, int, int]:
    return row[1], row[0], row[5], row[7]


def _identity(row: _Row) -> Identity:
    return row[1], row[0]
