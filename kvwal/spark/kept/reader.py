"""The reader of a kept log: the lines of one stage's task events, without the rest of the log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

from kvwal.spark.kept import frames
from kvwal.spark.kept.frames import SEEK_FOOTER_BYTES, Directory, FrameDecompressor, SeekTable
from kvwal.spark.kept.stage_index import StageIndex
from kvwal.spark.kept.task_lines import StageAttempt

READ_AHEAD = 4 << 20
"""Most bytes of one read. Frames that lie close together are read with what is between them."""
_GAP = 128 << 10
"""Bytes between two frames that are read rather than left out: a request to object storage costs more."""


class KeptLog:
    """One kept log, in a seekable file that the caller opens and closes. Nothing but the seek table and the directory is read
    until it is asked for.
    """

    def __init__(self, file: BinaryIO, length: int) -> None:
        """`DamagedKeptLog` if the file is no kept log, or is not whole."""
        self._file = file
        self._length = length
        table_bytes = frames.seek_table_bytes(self._read(max(0, length - SEEK_FOOTER_BYTES), SEEK_FOOTER_BYTES))
        if table_bytes > length:
            raise frames.DamagedKeptLog("its seek table is not whole")
        sizes = frames.parse_seek_table(self._read(length - table_bytes, table_bytes))
        if sum(size.stored for size in sizes) != length - table_bytes or not sizes:
            raise frames.DamagedKeptLog("its seek table is that of another file")
        end = length - table_bytes
        self.directory: Directory = frames.parse_directory(self._read(end - sizes[-1].stored, sizes[-1].stored))
        if sum(size.log for size in sizes) != self.directory.bytes:
            raise frames.DamagedKeptLog("its seek table counts other bytes than its directory")
        self._table = SeekTable(sizes)
        self._decompressor = FrameDecompressor()

    def attempts(self, stage: int) -> list[StageAttempt]:
        """The attempts at a stage that have task events, sorted."""
        return sorted({of for index in self._indexes(stage) for of, _ in index.attempts(stage)})

    def stages(self) -> Iterator[tuple[StageAttempt, int]]:
        """All stage attempts that have task events, sorted, each with the number of its lines."""
        found = merge(*map(self._index, self.directory.indexes))
        for of, counts in groupby(found, itemgetter(0)):
            yield of, sum(count for _, count in counts)

    def lines(self, of: StageAttempt) -> Iterator[bytes]:
        """The lines of the task events of a stage attempt, in the order of the log, without their ends."""
        for index in self._indexes(of.stage):
            for found, starts in index.attempts(of.stage):
                if found == of:
                    yield from self._lines_at(starts)

    def _indexes(self, stage: int) -> Iterator[StageIndex]:
        """The indexes that may have a stage, in the order of the log."""
        for place in self.directory.indexes:
            if place.first_stage <= stage <= place.last_stage:
                yield self._index(place)

    def _index(self, place: frames.IndexPlace) -> StageIndex:
        return StageIndex(frames.payload_of(self._read(place.offset, place.size)))

    def _lines_at(self, starts: Sequence[int]) -> Iterator[bytes]:
        """The lines that begin at these offsets of the log, which ascend."""
        if not 0 <= starts[0] <= starts[-1] < self.directory.bytes:
            raise frames.DamagedKeptLog("an index names lines that the log has not")
        by_frame = {
            number: list(group)
            for number, group in groupby(starts, lambda start: bisect_right(self._table.log_starts, start) - 1)
        }
        for number, data in self._frames(by_frame):
            first = self._table.log_starts[number]
            for start in by_frame[number]:
                end = data.find(b"\n", start - first)
                yield data[start - first : end if end >= 0 else len(data)]

    def _frames(self, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """The log bytes of these frames, which ascend."""
        table = self._table
        for run in _runs(numbers, table):
            start = table.stored_starts[run[0]]
            stored = self._read(start, table.stored_starts[run[-1]] + table.stored_sizes[run[-1]] - start)
            for number in run:
                at = table.stored_starts[number] - start
                frame = stored[at : at + table.stored_sizes[number]]
                data = self._decompressor.data(frame, table.log_sizes[number])
                if len(data) != table.log_sizes[number]:
                    raise frames.DamagedKeptLog("a frame has less than its seek table says")
                yield number, data

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(size)
        if len(data) != size:
            raise frames.DamagedKeptLog(f"it ends before its byte {offset + size}")
        return data


def _runs(numbers: Iterable[int], table: SeekTable) -> Iterator[list[int]]:
    """The numbers of frames in runs that are read at once."""
    run: list[int] = []
    for number in numbers:
        if run:
            end = table.stored_starts[run[-1]] + table.stored_sizes[run[-1]]
            is_far = table.stored_starts[number] - end > _GAP
            if (
                is_far
                or table.stored_starts[number] + table.stored_sizes[number] - table.stored_starts[run[0]] > READ_AHEAD
            ):
                yield run
                run = []
        run.append(number)
    if run:
        yield run
