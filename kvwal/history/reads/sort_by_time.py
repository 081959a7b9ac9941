"""External sort of archived rows by timestamp or sequence: Arrow batches in sorted runs in files, merged while they are read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kvwal.log.files.external_sort import write_pieces
from kvwal.log.files.names import partial_name
from kvwal.ports.disk import Disk

if TYPE_CHECKING:
    import pyarrow as pa

RUN_BYTES = 64 << 20
"""Bytes of rows that are sorted in memory at a time."""
READ_BYTES = 64 << 20
"""Bytes of rows of all runs together that a merge holds, as far as one piece of each run allows."""
_PIECE_BYTES = 128 << 10


class _Run(NamedTuple):
    path: Path
    schema: pa.Schema
    pieces: list[tuple[int, int]]


class TimeOrder:
    """Sorts the rows of Arrow batches by their column `timestamp`, or by another column of numbers.

    Rows that do not fit into memory are written to temporary files in `folder`. The files are not part of a log there: if the
    process is killed, recovery deletes them.
    """

    def __init__(self, disk: Disk, folder: Path, column: str = "timestamp") -> None:
        self._disk = disk
        self._column = column
        self._folder = folder
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._runs: list[_Run] = []
        self.count = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows. All batches have the same columns."""
        self._held.append(batch)
        self._bytes += batch.nbytes
        self.count += len(batch)
        if self._bytes >= RUN_BYTES:
            self._write()

    def in_order(self) -> Iterator[pa.RecordBatch]:
        """All rows in order. The files are deleted after the last row, and when the iteration ends before it."""
        if not self.count:
            return
        if not self._runs:
            yield self._sorted(self._held)
            return
        if self._held:
            self._write()
        try:
            yield from self._merged()
        finally:
            for run in self._runs:
                self._disk.unlink(run.path)

    def _write(self) -> None:
        rows = self._sorted(self._held)
        path = self._folder / partial_name(f"run-{len(self._runs)}")
        step = max(1, len(rows) * _PIECE_BYTES // max(1, rows.nbytes))
        pieces = (rows.slice(first, step).serialize() for first in range(0, len(rows), step))
        self._runs.append(_Run(path, rows.schema, write_pieces(self._disk, path, pieces)))
        self._held, self._bytes = [], 0

    def _read(self, run: _Run) -> Iterator[pa.RecordBatch]:
        """The rows of a run, several pieces at a time if there are few runs."""
        import pyarrow as pa

        many = max(1, READ_BYTES // _PIECE_BYTES // len(self._runs))
        pieces = iter(run.pieces)
        while some := list(islice(pieces, many)):
            read = (self._disk.read_part(run.path, position, size) for position, size in some)
            yield _joined([pa.ipc.read_record_batch(pa.py_buffer(data), run.schema) for data in read])

    def _merged(self) -> Iterator[pa.RecordBatch]:
        """Merge the runs. Of each run a part is in memory, so every row up to the least of their last numbers is there."""
        parts = [(batch, run) for run in map(self._read, self._runs) for batch in islice(run, 1)]
        while parts:
            end = min(self._number(batch, len(batch) - 1) for batch, _ in parts)
            places = [self._place(batch, end) for batch, _ in parts]
            yield self._sorted([batch.slice(0, place) for (batch, _), place in zip(parts, places, strict=True)])
            rest = [(batch.slice(place), run) for (batch, run), place in zip(parts, places, strict=True)]
            filled = ((batch if len(batch) else next(run, None), run) for batch, run in rest)
            parts = [(batch, run) for batch, run in filled if batch is not None]

    def _sorted(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        import pyarrow.compute as pc

        rows = _joined(batches)
        return rows.take(pc.array_sort_indices(rows.column(self._column)))

    def _number(self, batch: pa.RecordBatch, row: int) -> int:
        number: int = batch.column(self._column)[row].as_py()
        return number

    def _place(self, batch: pa.RecordBatch, end: int) -> int:
        """The number of rows of a sorted batch up to the number `end`."""
        return bisect_right(range(len(batch)), end, key=lambda row: self._number(batch, row))


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.concat_batches(batches)
