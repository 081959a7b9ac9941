"""Object writer: sorted rows become the file of an archive object, a row group at a time.

Memory holds one row group, however many there are (docs/decisions/0068-the-archiver-streams.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from kvwal_archive.layout import Place, Span
from kvwal_archive.parquet.key_filter import filter_options
from kvwal_archive.parquet.rows import (
    BLANK_BODY_CRC,
    FOOTER_KEY,
    FORMAT,
    IDENTITY,
    Footer,
    blank_chunk_crcs,
    blank_filter_crcs,
    same_as_before,
    schema,
    seal_file,
)

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 128 << 10
ROW_GROUP_BYTES = 8 << 20
"""About the bytes of rows in a row group: the least that a reader of a few keys decodes."""
WRITE_BATCH_ROWS = 1024
PAGE_BYTES = 1 << 20


class Seals(NamedTuple):
    """The position of rows in a log's chain of seals: the crc before the first row, and the crcs of the rows' segments."""

    log_id: str
    previous_crc: int
    seal_crcs: list[int]


class _Totals:
    """What the record in the footer says of all rows: numbers of rows, identities, bytes and row groups, and the times."""

    def __init__(self) -> None:
        self.groups = self.rows = self.identities = self.data_bytes = 0
        self.min_timestamp, self.max_timestamp = (1 << 63) - 1, 0
        self._last: tuple[Any, ...] | None = None

    def add(self, group: pa.Table) -> int:
        """Count a row group that is not empty. Returns the number of its identities."""
        import pyarrow.compute as pc

        times = pc.min_max(group.column("timestamp")).as_py()
        identities = len(group) - (same_as_before(group, IDENTITY).true_count if len(group) > 1 else 0)
        first, last = (tuple(group.column(name)[at].as_py() for name in IDENTITY) for at in (0, len(group) - 1))
        self.groups += 1
        self.rows += len(group)
        self.identities += identities - (first == self._last)
        self.data_bytes += bytes_of(group)
        self.min_timestamp = min(self.min_timestamp, times["min"])
        self.max_timestamp = max(self.max_timestamp, times["max"])
        self._last = last
        return identities


def bytes_of(rows: pa.Table | pa.RecordBatch) -> int:
    """Bytes of all keys and values."""
    import pyarrow.compute as pc

    return sum(pc.sum(pc.binary_length(rows.column(name))).as_py() or 0 for name in ("key", "value"))


def groups_of(table: pa.Table) -> Iterator[pa.Table]:
    """The row groups of rows that are in memory, all of one number of rows."""
    rows = max(1, min(ROW_GROUP_ROWS, ROW_GROUP_BYTES * len(table) // (bytes_of(table) + 1)))
    return (table.slice(first, rows) for first in range(0, len(table), rows))


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of a stream as tables that are row groups, none of them empty."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not len(batch):
            continue
        held.append(batch)
        rows += len(batch)
        size += bytes_of(batch)
        if size >= ROW_GROUP_BYTES or rows >= ROW_GROUP_ROWS:
            yield pa.Table.from_batches(held).combine_chunks()
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def write_object(
    file: BinaryIO, place: Place, span: Callable[[], Span], groups: Iterable[pa.Table], seals: Seals
) -> int:
    """Write an object into an empty file that is open for reading and writing, and return the number of its rows.

    `groups` are its row groups, their rows in the order of an object. `span` is called after the last of them. 0 rows: nothing
    that a reader takes was written.
    """
    import pyarrow.parquet as pq

    totals = _Totals()
    writer: pq.ParquetWriter | None = None
    try:
        for group in groups:
            identities = totals.add(group)
            writer = writer or pq.ParquetWriter(file, schema(), **_options(group, identities))
            writer.write_table(group, row_group_size=max(len(group), 1))
        if writer is None:
            return 0
        footer = Footer(
            format=FORMAT,
            **seals._asdict(),
            **place._asdict(),
            **span()._asdict(),
            rows=totals.rows,
            identities=totals.identities,
            data_bytes=totals.data_bytes,
            min_timestamp=totals.min_timestamp,
            max_timestamp=totals.max_timestamp,
            body_crc=BLANK_BODY_CRC,
            chunk_crcs=blank_chunk_crcs(totals.groups),
            filter_crcs=blank_filter_crcs(totals.groups),
        )
        writer.add_key_value_metadata({FOOTER_KEY: footer.encode()})
    finally:
        if writer is not None:
            writer.close()
    seal_file(file)
    return totals.rows


def _options(group: pa.Table, identities: int) -> dict[str, Any]:
    """Options of pyarrow's writer for an object that begins with this row group."""
    return {
        "compression": "zstd",
        "use_dictionary": ["key_class", "value_class"],
        "write_page_checksum": True,
        # The writer looks at the size of a page after each batch of rows, so large values need small batches.
        "write_batch_size": max(1, min(WRITE_BATCH_ROWS, PAGE_BYTES * len(group) // (bytes_of(group) + 1))),
        "data_page_size": PAGE_BYTES,
        "store_schema": False,
        "bloom_filter_options": filter_options(identities, ROW_GROUP_ROWS),
    }
