"""The writer of archive objects: a range of a log is sorted, compressed, described in a footer, put if absent, and confirmed.

The segments from which an object was made may be deleted once `put_segment` has returned, and not before.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from archive.errors import ArchiveDamaged, ArchiveError, ConfigError, KvwalError
from archive.faults import ObjectMissing
from archive.layout import Place, Span, object_key
from archive.objects import Objects
from archive.parquet.key_filter import filter_options
from archive.parquet.metadata import read_footer
from archive.parquet.rows import (
    BLANK_BODY_CRC,
    FOOTER_KEY,
    FORMAT,
    IDENTITY,
    Footer,
    blank_chunk_crcs,
    blank_filter_crcs,
    same_as_before,
    schema,
    seal_object,
    sorted_rows,
)
from archive.reader import list_spans, read_info
from archive.registry import owner, require_owner

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 128 << 10
WRITE_BATCH_ROWS = 1024
PAGE_BYTES = 1 << 20


class Stored(NamedTuple):
    """An object that is confirmed to be in the archive. `size` is in bytes."""

    key: str
    size: int
    rows: int


class Seals(NamedTuple):
    """The position of rows in a log's chain of seals: the crc before the first row, and the crcs of the rows' segments."""

    log_id: str
    previous_crc: int
    seal_crcs: list[int]


def put_segment(
    objects: Objects,
    place: Place,
    span: Span,
    table: pa.Table,
    *,
    log_id: str,
    previous_crc: int,
    seal_crcs: Sequence[int],
) -> Stored:
    """Store the rows of `span`, and return when size and checksum of the stored object are confirmed.

    `table` has the columns of `SCHEMA`, its rows in any order. Without a horizon it must hold every sequence of the span. If
    an object of the same log_id, range and seal crcs exists already, this call only confirms it.

    Raises ConfigError if another log owns the place (before or after the put) or the key. Raises ArchiveDamaged if the
    existing object is not this range of this log. Raises ArchiveError if the archive cannot be reached, or if a copy of the
    log archived other entries of this range meanwhile: then the new object was deleted again.
    """
    require_owner(objects, place, log_id)
    _check_rows(table, span)
    seals = Seals(log_id, previous_crc, list(seal_crcs))
    stored, is_new = _put(objects, place, span, sorted_rows(table), seals)
    require_owner(objects, place, log_id)
    if other := _object_of_copy(objects, place, span, seals):
        if is_new:
            objects.delete(stored.key)
        raise ArchiveError(
            f"{objects.url}: {other} was put while {stored.key} was, and its seals are others: a copy of the log's folder is"
            " open too, and archives there.",
            hint="Nothing of this range is archived or dropped here. Use one folder only: the one that the archive has.",
        )
    return stored


def _object_of_copy(objects: Objects, place: Place, span: Span, seals: Seals) -> str | None:
    """The key of an object of the same log that overlaps `span` with another chain of seals; a copy of the log put it.

    The caller asks after its put: of two processes that put at once, the later one sees the object of the other.
    """
    for other, (key, size, modified_ms) in list_spans(objects, place).items():
        if other == span or other.last < span.first or span.last < other.first:
            continue
        try:
            footer = read_info(objects, key, size, modified_ms).footer
        except ObjectMissing:  # compaction superseded it, or the other process saw our object and deleted its own
            continue
        shorter, longer = (footer.seal_crcs, seals.seal_crcs)[:: 1 if other.last <= span.last else -1]
        if footer.log_id == seals.log_id and not set(shorter[-1:]) <= set(longer):
            return key
    return None


def put_object(objects: Objects, place: Place, span: Span, table: pa.Table, seals: Seals) -> Stored:
    """Encode a sorted table, put it unless it exists already, and return when it is confirmed.

    An object that a fenced log put under the same key is replaced: no reader counts it, and its log still has the entries.
    """
    return _put(objects, place, span, table, seals)[0]


def _put(objects: Objects, place: Place, span: Span, table: pa.Table, seals: Seals) -> tuple[Stored, bool]:
    """Put the object. Returns it, and whether this call put it."""
    footer, data = encode(place, span, table, seals)
    key = object_key(place, span)
    if not objects.put_if_absent(key, data):
        existing, its_footer = _read_whole(objects, key)
        if not _is_behind_a_fence(objects, its_footer):
            return _confirm_ours(objects, existing, its_footer, footer), False
        objects.delete(key)
        if not objects.put_if_absent(key, data):
            return _confirm_ours(objects, *_read_whole(objects, key), footer), False
    objects.confirm(key, data)
    return Stored(key, len(data), footer.rows), True


def _read_whole(objects: Objects, key: str) -> tuple[Stored, Footer]:
    data = objects.read(key)
    footer = read_footer(io.BytesIO(data), key, whole=True)
    return Stored(key, len(data), footer.rows), footer


def _is_behind_a_fence(objects: Objects, footer: Footer) -> bool:
    """Whether another log took over before the range of this object began."""
    registration = owner(objects, footer.place)
    counted = registration.range_of(footer.log_id) if registration is not None else None
    return counted is not None and counted[1] is not None and counted[1] < footer.span.first


def _check_rows(table: pa.Table, span: Span) -> None:
    import pyarrow.compute as pc

    if not len(table):
        raise KvwalError(f"An object needs at least one row, and sequences {span.first}–{span.last} came with none.")
    sequences = pc.min_max(table.column("sequence")).as_py()
    is_inside = span.first <= sequences["min"] and sequences["max"] <= span.last
    is_complete = (
        span.horizon or len(table) == span.last - span.first + 1 == pc.count_distinct(table.column("sequence")).as_py()
    )
    if not (is_inside and is_complete):
        what = f"{len(table)} rows from {sequences['min']} to {sequences['max']}"
        raise KvwalError(f"The rows of sequences {span.first}–{span.last} are not that range: {what}.")


def encode(place: Place, span: Span, table: pa.Table, seals: Seals) -> tuple[Footer, bytes]:
    """The record in the footer of an object, and the object's bytes. `table` is sorted already. Pure."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    times = pc.min_max(table.column("timestamp")).as_py()
    data_bytes = sum(pc.sum(pc.binary_length(table.column(name))).as_py() for name in ("key", "value"))
    identities = len(table) - same_as_before(table, IDENTITY).true_count
    groups = -(-len(table) // ROW_GROUP_ROWS)
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        schema(),
        compression="zstd",
        use_dictionary=["key_class", "value_class"],
        write_page_checksum=True,
        # The writer looks at the size of a page after each batch of rows, so large values need small batches.
        write_batch_size=max(1, min(WRITE_BATCH_ROWS, PAGE_BYTES * len(table) // (data_bytes + 1))),
        data_page_size=PAGE_BYTES,
        store_schema=False,
        bloom_filter_options=filter_options(identities, ROW_GROUP_ROWS),
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        footer = Footer(
            format=FORMAT,
            **seals._asdict(),
            **place._asdict(),
            **span._asdict(),
            rows=len(table),
            identities=identities,
            data_bytes=data_bytes,
            min_timestamp=times["min"],
            max_timestamp=times["max"],
            body_crc=BLANK_BODY_CRC,
            chunk_crcs=blank_chunk_crcs(groups),
            filter_crcs=blank_filter_crcs(groups),
        )
        writer.add_key_value_metadata({FOOTER_KEY: footer.encode()})
    data = seal_object(sink.getvalue())
    return read_footer(io.BytesIO(data), object_key(place, span)), data


def _confirm_ours(objects: Objects, existing: Stored, its_footer: Footer, wanted: Footer) -> Stored:
    """Return the existing object if it is the wanted one, by the record in its footer and its checksum.

    Its bytes are not compared: another version of the Parquet writer would produce other bytes.
    """
    key = existing.key
    if its_footer.log_id != wanted.log_id:
        raise ConfigError(
            f"{objects.url}: {key} holds the same range of another log.",
            hint="Choose another node name; or, if that log is gone for good, move the object out of the archive.",
        )
    if (its_footer.place, its_footer.span, its_footer.rows, its_footer.seal_crcs) != (
        wanted.place,
        wanted.span,
        wanted.rows,
        wanted.seal_crcs,
    ):
        raise ArchiveDamaged(
            f"{objects.url}: {key} is not the range of the log that its name says: its seals or its rows differ.",
            hint="Nothing was overwritten; `kvwal archive verify` shows what it holds.",
        )
    return existing
