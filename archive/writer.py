"""A range of a log becomes an object: sorted, compressed, described in its footer, put if absent, and confirmed.

The segment that an object was made from may be deleted once `put_segment` has returned, and not before.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from archive.errors import ArchiveDamaged, ArchiveError, ConfigError, KvwalError
from archive.faults import ObjectMissing
from archive.layout import Place, Span, object_key
from archive.objects import Objects
from archive.parquet.rows import (
    FOOTER_KEY,
    FORMAT,
    IDENTITY,
    Footer,
    blank_chunk_crcs,
    same_as_before,
    schema,
    seal_object,
    sorted_rows,
)
from archive.reader import list_spans, read_footer, read_info
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
    """Where rows stand in the chain of seals of a log: the crc before the first of them, and those of their segments."""

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
    """Stores the rows of `span` and returns when size and checksum of what is stored are confirmed.

    `table` has the columns of `SCHEMA`, rows in any order; without a horizon it must hold every sequence of the span.
    An object that is there already is ours if its footer has the same log_id, range and seal crcs; then this call
    only confirms it. Raises ConfigError if another log owns the place (before or after the put) or the key,
    ArchiveDamaged if the object there is not this range of this log, ArchiveError if the archive cannot be reached, or
    if a copy of the log archived other entries of this range meanwhile: then the object that was put here is gone again.
    """
    require_owner(objects, place, log_id)
    _check_rows(table, span)
    seals = Seals(log_id, previous_crc, list(seal_crcs))
    stored, is_new = _put(objects, place, span, sorted_rows(table), seals)
    require_owner(objects, place, log_id)
    if other := _of_a_copy(objects, place, span, seals):
        if is_new:
            objects.delete(stored.key)
        raise ArchiveError(
            f"{objects.url}: {other} was put while {stored.key} was, and its seals are others: a copy of the log's folder is"
            " open too, and archives there.",
            hint="Nothing of this range is archived or dropped here. Use one folder only: the one that the archive has.",
        )
    return stored


def _of_a_copy(objects: Objects, place: Place, span: Span, seals: Seals) -> str | None:
    """The key of an object of the same log that overlaps `span` and does not stand in the same chain of seals.

    The caller looks after its put, not before: of two processes that put at once, the later one sees the object of the other.
    """
    for other, (key, size, modified_ms) in list_spans(objects, place).items():
        if other == span or other.last < span.first or span.last < other.first:
            continue
        try:
            footer = read_info(objects, key, size, modified_ms).footer
        except ObjectMissing:  # a rewrite took its place, or the other saw ours first
            continue
        shorter, longer = (footer.seal_crcs, seals.seal_crcs)[:: 1 if other.last <= span.last else -1]
        if footer.log_id == seals.log_id and not set(shorter[-1:]) <= set(longer):
            return key
    return None


def put_object(objects: Objects, place: Place, span: Span, table: pa.Table, seals: Seals) -> Stored:
    """Encodes a sorted table, puts it or finds that it is there, and returns when it is confirmed.

    What a fenced log put under that name after it was fenced gives way: nobody reads it, and its log still has it.
    """
    return _put(objects, place, span, table, seals)[0]


def _put(objects: Objects, place: Place, span: Span, table: pa.Table, seals: Seals) -> tuple[Stored, bool]:
    """The object, and whether this call put it."""
    footer, data = encode(place, span, table, seals)
    key = object_key(place, span)
    if not objects.put_if_absent(key, data):
        there, found = _read_whole(objects, key)
        if not _is_behind_a_fence(objects, found):
            return _confirm_ours(objects, there, found, footer), False
        objects.delete(key)
        if not objects.put_if_absent(key, data):
            return _confirm_ours(objects, *_read_whole(objects, key), footer), False
    objects.confirm(key, data)
    return Stored(key, len(data), footer.rows), True


def _read_whole(objects: Objects, key: str) -> tuple[Stored, Footer]:
    data = objects.read(key)
    found = read_footer(io.BytesIO(data), key, whole=True)
    return Stored(key, len(data), found.rows), found


def _is_behind_a_fence(objects: Objects, found: Footer) -> bool:
    """Whether another log took over before the range of this object began."""
    owning = owner(objects, found.place)
    counts = owning.range_of(found.log_id) if owning is not None else None
    return counts is not None and counts[1] is not None and counts[1] < found.span.first


def _check_rows(table: pa.Table, span: Span) -> None:
    import pyarrow.compute as pc

    if not len(table):
        raise KvwalError(f"An object needs at least one row, and sequences {span.first}–{span.last} came with none.")
    found = pc.min_max(table.column("sequence")).as_py()
    inside = span.first <= found["min"] and found["max"] <= span.last
    complete = (
        span.horizon or len(table) == span.last - span.first + 1 == pc.count_distinct(table.column("sequence")).as_py()
    )
    if not (inside and complete):
        what = f"{len(table)} rows from {found['min']} to {found['max']}"
        raise KvwalError(f"The rows of sequences {span.first}–{span.last} are not that range: {what}.")


def encode(place: Place, span: Span, table: pa.Table, seals: Seals) -> tuple[Footer, bytes]:
    """The bytes of an object and the record in its footer. `table` is sorted already; no I/O."""
    import google_crc32c
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    times = pc.min_max(table.column("timestamp")).as_py()
    data_bytes = sum(pc.sum(pc.binary_length(table.column(name))).as_py() for name in ("key", "value"))
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        schema(),
        compression="zstd",
        use_dictionary=["key_class", "value_class"],
        write_page_checksum=True,
        # A page ends at the first look at its size: with large values that must not be a thousand rows away.
        write_batch_size=max(1, min(WRITE_BATCH_ROWS, PAGE_BYTES * len(table) // (data_bytes + 1))),
        data_page_size=PAGE_BYTES,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        footer = Footer(
            format=FORMAT,
            **seals._asdict(),
            **place._asdict(),
            **span._asdict(),
            rows=len(table),
            identities=len(table) - same_as_before(table, IDENTITY).true_count,
            data_bytes=data_bytes,
            min_timestamp=times["min"],
            max_timestamp=times["max"],
            body_crc=google_crc32c.value(sink.getvalue()),
            chunk_crcs=blank_chunk_crcs(-(-len(table) // ROW_GROUP_ROWS)),
        )
        writer.add_key_value_metadata({FOOTER_KEY: footer.encode()})
    data = seal_object(sink.getvalue())
    return read_footer(io.BytesIO(data), object_key(place, span)), data


def _confirm_ours(objects: Objects, there: Stored, found: Footer, wanted: Footer) -> Stored:
    """The object that stands where ours should: accepted by its record and its checksum, never by equal bytes, which
    another version of the Parquet writer would not produce.
    """
    key = there.key
    if found.log_id != wanted.log_id:
        raise ConfigError(
            f"{objects.url}: {key} holds the same range of another log.",
            hint="Choose another node name; or, if that log is gone for good, move the object out of the archive.",
        )
    if (found.place, found.span, found.rows) != (
        wanted.place,
        wanted.span,
        wanted.rows,
    ) or found.seal_crcs != wanted.seal_crcs:
        raise ArchiveDamaged(
            f"{objects.url}: {key} is not the range of the log that its name says: its seals or its rows differ.",
            hint="Nothing was overwritten; `kvwal archive verify` shows what it holds.",
        )
    return there
