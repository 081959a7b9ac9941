"""Timestamps along a log ascend. The exception has a name: segments of a merge of nodes, or of a repair (`Header.merged`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kvwal.entry import Entry
from kvwal.errors import CorruptLog, NewerVersion
from kvwal.log.files.chain import link_problem, missing_part_problem, snapshot_parts
from kvwal.log.files.format import BlockKind
from kvwal.log.files.names import LogFile
from kvwal.log.overflow.read import open_segment
from kvwal.log.reader import SegmentReader, SnapshotReader, entry_decoder, log_files
from kvwal.ports.disk import Disk


def disorder(disk: Disk, folder: Path) -> str | None:
    """The first place of a log at which time goes back, None if there is none.

    A log is judged as far as it is whole: what stands after damage is a matter of other tests.
    """
    segments, snapshots = log_files(disk, folder)
    parts = snapshot_parts(snapshots)
    covered, greatest = 0, 0
    try:
        if parts and missing_part_problem(parts) is None:
            header = _snapshot_header(disk, folder / parts[0].name)
            covered, greatest = parts[0].number, header
        return _Walk(disk, folder, covered, greatest).through(segments)
    except (CorruptLog, NewerVersion, FileNotFoundError):
        return None


def _snapshot_header(disk: Disk, path: Path) -> int:
    with disk.view(path) as buffer:
        return SnapshotReader(path, buffer).header.last_timestamp


class _Walk:
    """A way through the segments of a log. `greatest` is the greatest timestamp so far."""

    def __init__(self, disk: Disk, folder: Path, covered: int, of_snapshot: int) -> None:
        self._disk = disk
        self._folder = folder
        self._covered = covered
        self._of_snapshot = of_snapshot
        self._greatest = 0

    def through(self, segments: list[LogFile]) -> str | None:
        wanted, seal = (segments[0].number, None) if segments else (0, None)
        for segment in segments:
            path = self._folder / segment.name
            with self._disk.view(path) as buffer:
                reader = open_segment(self._disk, path, buffer)
                problem = link_problem(reader.header, wanted, reader.header.previous_crc if seal is None else seal)
                if problem is not None:
                    return None
                if segment.number > self._covered:
                    self._greatest = max(self._greatest, self._of_snapshot)
                found = next(self._steps_back(reader), None)
                if found is not None or reader.seal is None:
                    return found
                wanted, seal = reader.next_sequence, reader.seal_crc
        return None

    def _steps_back(self, reader: SegmentReader) -> Iterator[str]:
        """The transactions that are not later than all before them. One block of a writer holds whole transactions; the blocks of
        a restored log may part them."""
        is_merged, is_restored = reader.header.merged is True, reader.header.epoch == 0
        for rows in _blocks(reader):
            before = self._greatest
            for sequence, entry in rows:
                is_back = entry.timestamp < self._greatest or (
                    entry.timestamp == before and not is_restored and sequence > 1
                )
                if is_back and not is_merged:
                    yield f"{reader.path}: sequence {sequence} has the timestamp {entry.timestamp}, behind {self._greatest}"
                self._greatest = max(self._greatest, entry.timestamp)


def _blocks(reader: SegmentReader) -> Iterator[Iterator[tuple[int, Entry]]]:
    """The entries of each block, with their sequences. All of an overflow file are those of its block."""
    decode = entry_decoder()
    while (block := reader.next_block()) is not None:
        if block.kind is BlockKind.OVERFLOW:
            parts = reader.overflowed(block, decode)
        else:
            parts = iter([(reader.next_sequence, reader.decoded(decode, block))])
        yield (row for first, entries in parts for row in enumerate(entries, first))
        reader.advance(block, reader.count_of(block))
