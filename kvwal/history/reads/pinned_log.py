"""A log whose files are held open, so that it shows one moment: a checkpoint may remove the files meanwhile.

This module imports neither asyncio nor Arrow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from kvwal.entry import Decode, Entry, entry_identity
from kvwal.history.reads.tail_reader import LOOKS, Identity, read_log
from kvwal.log.files.chain import check_belongs
from kvwal.log.files.names import log_folder
from kvwal.log.files.snapshot_reader import SnapshotView, merge_all, merge_all_blocks, merge_blocks, open_snapshot
from kvwal.log.reader import SnapshotReader, entry_decoder, log_files, streamed
from kvwal.log.unlocked.sinks import Sink
from kvwal.ports.disk import Buffer, Disk
from kvwal.structures.destroyed import MARKS
from kvwal_archive.layout import Place

Blocks = Iterator[list[Entry]]
Part = tuple[Path, Buffer]


class LatestSink(Sink, Protocol):
    """A sink that can be asked for the latest entry of every identity that it took."""

    def in_order(self) -> list[Entry]:
        """The entries, sorted by identity, deletes included."""
        ...


class PinnedLog:
    """A log as it was when it was opened. It can be read several times, with bounded memory."""

    def __init__(self, parts: Sequence[Part], newer: list[Entry]) -> None:
        """`parts` are the files of the snapshot, newest first; `newer` are the entries after it."""
        self._parts = parts
        self._newer = newer

    def blocks(self, keep: Callable[[list[Entry]], list[Entry]] = list) -> Blocks:
        """The latest entry of every identity, sorted, deletes included, in blocks that are not empty.

        `keep` gives the entries to keep of a block of the snapshot. Raises `CorruptLog`.
        """
        decode = entry_decoder()
        snapshot = merge_all_blocks(_blocks(path, buffer, decode) for path, buffer in self._parts)
        kept = (block for block in map(keep, snapshot) if block)
        return merge_blocks(kept, iter([self._newer] if self._newer else []))

    def marks(self) -> list[Entry]:
        """The marks of the log's map, if the log was opened with a sink that keeps them. Raises `CorruptLog`."""
        decode = entry_decoder()
        newer = (entry for entry in self._newer if MARKS[0] <= entry_identity(entry) < MARKS[1])
        snapshot = (SnapshotView(path, view).between_at_start(decode, *MARKS) for path, view in self._parts)
        return list(merge_all([newer, *snapshot]))

    def between(self, low: Identity, high: Identity) -> Iterator[Entry]:
        """The latest entry of every identity from `low` to before `high`, sorted, deletes included.

        Of the snapshot only the blocks of that range are read. Raises `CorruptLog`.
        """
        decode = entry_decoder()
        snapshot = (SnapshotView(path, view).between(decode, low, high) for path, view in self._parts)
        begin, end = (bisect_left(self._newer, identity, key=entry_identity) for identity in (low, high))
        return merge_all([iter(self._newer[begin:end]), *snapshot])


@contextmanager
def pin_log(disk: Disk, root: Path, place: Place, sink: Callable[[], LatestSink]) -> Iterator[PinnedLog]:
    """Open a log as it is now. The entries after the snapshot go through `sink`. Raises `CorruptLog`."""
    with ExitStack() as opened:
        last, parts = _open_snapshot(disk, root, place, opened)
        newer = read_log(disk, root, place, sink, archived=lambda log_id: last).sink.in_order()
        yield PinnedLog(parts, newer)


def _open_snapshot(disk: Disk, root: Path, place: Place, opened: ExitStack) -> tuple[int, list[Part]]:
    """The last sequence of the snapshot, and its parts, newest first. A checkpoint may replace the parts meanwhile."""
    for _ in range(LOOKS):
        with suppress(FileNotFoundError):
            return _open_parts(disk, root, place, opened)
    return _open_parts(disk, root, place, opened)


def _open_parts(disk: Disk, root: Path, place: Place, opened: ExitStack) -> tuple[int, list[Part]]:
    folder = log_folder(root, place)
    snapshot = open_snapshot(disk, folder, log_files(disk, folder)[1])
    if snapshot is None:
        return 0, []
    check_belongs(snapshot.header, place, folder)
    parts = [(part.path, opened.enter_context(disk.view(part.path))) for part in snapshot.parts]
    return snapshot.header.last_sequence, parts


def _blocks(path: Path, buffer: Buffer, decode: Decode) -> Blocks:
    reader = SnapshotReader(path, buffer)
    yield from streamed(reader, buffer, reader.whole(decode))
