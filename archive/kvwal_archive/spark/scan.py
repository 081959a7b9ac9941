"""The scan of one partition: what a task does with its ranges of keys, by pyarrow and the archive's port to files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from kvwal_archive.merge import MergeSource, all_batches, latest_batches
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.columns import BUFFER_BYTES, open_ranges
from kvwal_archive.parquet.key_ranges import KeyRange
from kvwal_archive.parquet.rows import COLUMNS, schema
from kvwal_archive.spark.plan import Partition, ScannedObject

if TYPE_CHECKING:
    import pyarrow as pa

HELD_BYTES = 8 << 20
"""Compressed bytes of the objects that are decoded at once. Of other objects a few rows are, and their files stay open."""
READ_AHEAD_BYTES, LEAST_BUFFER_BYTES = 64 << 20, 16 << 10


def latest_rows(objects: Objects, partition: Partition, at: int | None = None) -> Iterator[pa.RecordBatch]:
    """The latest row of every identity of the partition, sorted: the columns of `kvwal_archive.parquet.rows.node_schema`.

    With `at` only rows up to that timestamp count. Deleted rows are given too, with their flag. Expired rows are not left out.
    Raises ArchiveDamaged if a byte of a row group
    that was read is not as it was written, at the latest when the last row was given. Raises ObjectMissing if compaction
    removed an object since the plan was made.
    """
    with ExitStack() as files:
        yield from latest_batches(_sources(files, objects, partition), at)


def all_rows(objects: Objects, partition: Partition) -> Iterator[pa.RecordBatch]:
    """Every row of the partition, each (node, sequence) of an identity once. Columns and errors are those of `latest_rows`."""
    with ExitStack() as files:
        yield from all_batches(_sources(files, objects, partition))


def _sources(files: ExitStack, objects: Objects, partition: Partition) -> list[MergeSource]:
    left = HELD_BYTES
    buffer = max(
        LEAST_BUFFER_BYTES, min(BUFFER_BYTES, READ_AHEAD_BYTES // len(COLUMNS) // max(1, len(partition.objects)))
    )
    sources = []
    for scanned in sorted(partition.objects, key=lambda item: item.size):
        left -= scanned.size
        if left >= 0:
            rows = _table(objects, scanned, partition.ranges)
            sources.append(MergeSource(scanned.node, rows, after=scanned.after))
            continue
        opened = files.enter_context(open_ranges(objects, scanned.info, partition.ranges, buffer))
        stream = partial(opened.within, partition.ranges)
        sources.append(MergeSource(scanned.node, stream, row_bytes=scanned.info.row_bytes, after=scanned.after))
    return sources


def _table(objects: Objects, scanned: ScannedObject, ranges: Sequence[KeyRange]) -> pa.Table:
    import pyarrow as pa

    with open_ranges(objects, scanned.info, ranges) as opened:
        batches = list(opened.within(ranges))
    return pa.Table.from_batches(batches).cast(schema()) if batches else schema().empty_table()
