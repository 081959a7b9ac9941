"""Entries of an open log, read from its files again: snapshot and segments serve a structure as its swap file.

Files are read and not mapped, because the log writer may cut the last segment short meanwhile. Of the last segment the blocks
that are whole are read: what memory has was written before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from kvwal.entry import Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.key_class import CONTENT_RANGES, is_of_content
from kvwal.log.files.chain import gap_problem
from kvwal.log.files.format import Block, BlockKind, decode_seal
from kvwal.log.files.names import LogFile, partial_name
from kvwal.log.files.snapshot_reader import Snapshot, SnapshotSearch, merge_all_blocks, open_snapshot, search
from kvwal.log.latest_entries import LatestEntries
from kvwal.log.overflow.read import open_by_parts
from kvwal.log.reader import Window, log_files
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk

_LOOKS = 10
"""How often the files are listed again, because a checkpoint replaces some meanwhile."""
Identity = tuple[str, bytes]


class StoredEntries:
    """The entries of the log in one folder. See `kvwal.structures.queue_items.swapped.Stored`."""

    def __init__(self, disk: Disk, clock: Clock, folder: Path, decode: Decode) -> None:
        """`clock` gives a random name for the files of a sort that does not fit in memory."""
        self._disk = disk
        self._clock = clock
        self._folder = folder
        self._decode = decode

    def latest(self, key_class: str) -> Iterator[list[Entry]]:
        """The latest entry of every key of a class, sorted, in blocks, deletes included. The memory is bounded.

        `FileNotFoundError` when a checkpoint has replaced a file that was not read yet.
        """
        ranges = [((key_class, b""), (key_class + "\0", b""))]
        return self._latest(ranges, lambda entry: entry.key_class == key_class)

    def contents(self) -> Iterator[list[Entry]]:
        """As `latest`, of the names of all contents."""
        return self._latest(CONTENT_RANGES, lambda entry: is_of_content(entry.key_class))

    def _latest(
        self, ranges: Sequence[tuple[Identity, Identity]], wanted: Callable[[Entry], bool]
    ) -> Iterator[list[Entry]]:
        tag = f"{self._clock.random_bits(64):016x}"
        with LatestEntries(self._decode, self._disk, lambda n: self._folder / partial_name(f"fold-{tag}-{n}")) as newer:
            snapshot, segments = self._files()
            for file, following in zip(segments, [*segments[1:], None], strict=True):
                for entries in self._segment(file).blocks(following):
                    newer.add([entry for entry in entries if wanted(entry)])
            parts = snapshot.parts if snapshot is not None else []
            older = [_within(part, self._decode, ranges) for part in parts]
            yield from merge_all_blocks([newer.blocks_in_order(), *older])

    def stretch(self, low: Identity, high: Identity, timestamp: int) -> Iterator[Entry]:
        """Entries from `low` to before `high` that are no deletes: those of the snapshot in the order of identity, then those of
        the segments after it, in the order of the log, from the one with `timestamp` on.

        `FileNotFoundError` when a checkpoint has replaced a file that was not read yet.
        """
        snapshot, segments = self._files()
        if snapshot is not None:
            for entries in snapshot.blocks_between(self._decode, low, high):
                yield from (entry for entry in entries if not entry.deleted)
        key_class, begin, end = low[0], low[1], high[1]
        for entries in self._from(segments, timestamp):
            for entry in entries:
                if entry.key_class == key_class and begin <= entry.key < end and not entry.deleted:
                    yield entry

    def missing(self, key: bytes) -> CorruptLog:
        """The error for an entry that the files do not have."""
        return CorruptLog(f"the entry behind the key {key.hex()} is missing.", path=self._folder, offset=0)

    def _files(self) -> tuple[Snapshot | None, list[LogFile]]:
        """The snapshot, and the segments after it. `CorruptLog` if there is a gap between them, and stays there."""
        for _ in range(
            _LOOKS
        ):  # a list that is made while a checkpoint replaces files may lack the old ones and the new one
            segments, snapshots = log_files(self._disk, self._folder)
            snapshot = open_snapshot(self._disk, self._folder, snapshots)
            last = snapshot.header.last_sequence if snapshot is not None else 0
            segments = [file for file in segments if file.number > last]
            if not segments or segments[0].number == last + 1:
                return snapshot, segments
        problem = gap_problem(segments[0].number, last + 1)
        raise CorruptLog(problem, path=self._folder / segments[0].name, offset=0, sequence=last + 1)

    def _segment(self, file: LogFile) -> _Segment:
        return _Segment(self._disk, self._folder / file.name, self._decode)

    def _from(self, segments: list[LogFile], timestamp: int) -> Iterator[list[Entry]]:
        """The entries of blocks, from one on that is before the entry with this timestamp, and near to it."""
        for file, following in zip(segments, [*segments[1:], None], strict=True):
            if following is not None and self._segment(following).begins_by(timestamp):
                continue  # this one ends before the entry
            segment = self._segment(file)
            segment.search(timestamp)
            yield from segment.blocks(following)


def _within(part: SnapshotSearch, decode: Decode, ranges: Sequence[tuple[Identity, Identity]]) -> Iterator[list[Entry]]:
    for low, high in ranges:
        yield from part.blocks_between(decode, low, high)


class _Segment:
    """A segment that may grow. `at` is the offset from which it is read."""

    def __init__(self, disk: Disk, path: Path, decode: Decode) -> None:
        self._decode = decode
        self._disk = disk
        self._path = path
        self._reader = open_by_parts(disk, path)
        self.at = self._reader.start

    def begins_by(self, timestamp: int) -> bool:
        """Whether its first entry has this timestamp or an earlier one. False without entries."""
        block = self._reader.block_at(self._reader.start)
        return block is not None and block.kind is not BlockKind.SEAL and self._begin(block) <= timestamp

    def search(self, timestamp: int) -> None:
        """Set `at` to a block that is at or before the first entry with this timestamp, and near to it."""

        def is_behind(block: Block) -> bool:
            return block.kind is BlockKind.SEAL or self._begin(block) >= timestamp

        window = Window(partial(self._disk.read_part, self._path))
        size, salt = self._disk.size(self._path), self._reader.header.salt
        self.at = search(self._reader.start, size, partial(window.find_block, salt=salt), is_behind, grows=True)

    def blocks(self, following: LogFile | None) -> Iterator[list[Entry]]:
        """The entries of each block from `at` on. `following` is the segment after this one; without it this is the last one, and
        ends where no block is whole. Raises `CorruptLog`.
        """
        reader = self._reader
        while (block := reader.block_at(self.at)) is not None and block.kind is not BlockKind.SEAL:
            if block.kind is BlockKind.OVERFLOW:
                reader.end = self.at
                yield from (entries for _, entries in reader.overflowed(block, self._decode))
            else:
                yield reader.decoded(self._decode, block)
            self.at = block.end
        if following is None:
            return
        if block is None:
            raise reader.corrupt("the block here does not verify, and the segment is not the last one.", self.at)
        if (needed := decode_seal(block.payload).last_sequence + 1) != following.number:
            raise reader.corrupt(gap_problem(following.number, needed), self.at)

    def _begin(self, block: Block) -> int:
        """The timestamp of a block's first entry."""
        if block.kind is BlockKind.OVERFLOW:
            return self._reader.reference(block).timestamp
        return self._reader.decoded(self._decode, block)[0].timestamp
