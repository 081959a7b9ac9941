"""Archiving of a segment that is larger than memory should hold: one with overflow files.

Its rows are sorted in files, and written as one object, a row group at a time. A segment is one object: the next one has to
begin with the seal with which this one ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvwal.entry import Decode, make_entry
from kvwal.history.reads.entry_rows import to_table
from kvwal.log.files.external_sort import Row, Runs, row_of
from kvwal.log.files.segment import SealedSegment
from kvwal.log.files.snapshot import in_blocks
from kvwal.log.overflow.read import sealed_blocks
from kvwal.ports.disk import OS_DISK, Disk
from kvwal_archive import writer
from kvwal_archive.layout import Place, Span
from kvwal_archive.objects import OneLook
from kvwal_archive.parquet.object_file import Seals

if TYPE_CHECKING:
    import pyarrow as pa


def put_large(objects: OneLook, place: Place, log_id: str, disk: Disk, decode: Decode, segment: SealedSegment) -> int:
    """Put an object with the entries of this segment. Returns its greatest timestamp. Memory holds some row groups."""
    with objects.scratch(2 * segment.size) as scratch:
        runs = Runs(OS_DISK, scratch, key=_order)
        greatest = 0
        for first, entries in sealed_blocks(disk, segment, decode):
            for sequence, entry in enumerate(entries, first):
                greatest = max(greatest, entry.timestamp)
                runs.add(row_of(entry, sequence))
        writer.put_rows(
            objects, place, Span(segment.first, segment.last), _batches(runs.in_order()),
            Seals(log_id, segment.previous_crc, [segment.crc]), scratch / "segment",
        )  # fmt: skip
    return greatest


def _order(row: Row) -> tuple[str, bytes, int, int]:
    """The order of an object: by identity, and within an identity newest first."""
    return row[1], row[0], -row[5], -row[7]


def _batches(rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    for block in in_blocks(rows, lambda row: len(row[0]) + len(row[2])):
        yield from to_table([(row[7], make_entry(*row[:7])) for row in block]).to_batches()
