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
from kvwal.entry import Decode, Entry, is_live, make_entry
from kvwal.history.moving import read_settled
from kvwal.history.tail_reader import Identity, LatestOfEach, read_log
from kvwal.log.files.chain import check_belongs
from kvwal.log.files.names import log_folder
from kvwal.log.files.parts import merge_all, merge_sorted, open_snapshot
from kvwal.log.files.runs import Runs
from kvwal.log.reader import SnapshotReader, entry_decoder, log_files
from kvwal.ports.disk import Disk, drop_pages, scratch_folder

READ_BYTES = 8 << 20
"""About how many bytes of a part of a snapshot are in memory at a time."""
_LOOKS = 10

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


def live_in_order(disk: Disk, root: Path, find: Callable[[], Sequence[Place]], now_ms: int) -> Iterator[Entry]:
    """The entries of `merged_in_order` that are live at `now_ms`. Their temporary files go when the iterator ends."""
    with scratch_folder() as scratch:
        for entry in merged_in_order(disk, root, find, scratch):
            if is_live(entry, now_ms):
                yield entry


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
    """The latest entry of every identity of one log, sorted by identity, deletes included, as the log is now.

    The parts of the snapshot stay open, so that a checkpoint may remove them meanwhile.
    """
    decode = entry_decoder()
    with ExitStack() as opened:
        last, parts = _open_snapshot(disk, root, place, opened)
        tail = read_log(disk, root, place, LatestOfEach, archived=lambda log_id: last).sink.latest
        newer = (tail[identity][1] for identity in sorted(tail))
        yield merge_sorted(merge_all(_entries(reader, buffer, decode) for reader, buffer in parts), newer)


def _open_snapshot(
    disk: Disk, root: Path, place: Place, opened: ExitStack
) -> tuple[int, list[tuple[SnapshotReader, Any]]]:
    """The last sequence of the snapshot, and its parts, newest first. A checkpoint may replace the parts meanwhile."""
    for _ in range(_LOOKS):
        with suppress(FileNotFoundError):
            return _open_parts(disk, root, place, opened)
    return _open_parts(disk, root, place, opened)


def _open_parts(
    disk: Disk, root: Path, place: Place, opened: ExitStack
) -> tuple[int, list[tuple[SnapshotReader, Any]]]:
    folder = log_folder(root, place)
    snapshot = open_snapshot(disk, folder, log_files(disk, folder)[1])
    if snapshot is None:
        return 0, []
    check_belongs(snapshot.header, place, folder)
    buffers = [(part.path, opened.enter_context(disk.view(part.path))) for part in snapshot.parts]
    return snapshot.header.last_sequence, [(SnapshotReader(path, buffer), buffer) for path, buffer in buffers]


def _entries(reader: SnapshotReader, buffer: Any, decode: Decode) -> Iterator[Entry]:
    before = 0
    for entries in reader.whole(decode):
        yield from entries
        if reader.end - before >= READ_BYTES:
            before = reader.end
            drop_pages(buffer, before)


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
