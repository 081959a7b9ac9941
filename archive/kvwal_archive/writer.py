"""The writer of archive objects: a range of a log is sorted, compressed, described in a footer, put if absent, and confirmed.

The archive needs the segments of an object until `put_segment` has returned. The log deletes them then, if a snapshot covers
them, too.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kvwal_archive.errors import ArchiveDamaged, ArchiveError, ConfigError, KvwalError
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import Place, Span, object_key
from kvwal_archive.objects import Objects, open_copy
from kvwal_archive.objects.port import Body, size_of
from kvwal_archive.parquet.metadata import read_footer
from kvwal_archive.parquet.object_file import Seals, groups_of, row_groups, write_object
from kvwal_archive.parquet.rows import Footer, sorted_rows
from kvwal_archive.reader import list_spans, read_info
from kvwal_archive.registry import owner, require_owner

if TYPE_CHECKING:
    import pyarrow as pa


class Stored(NamedTuple):
    """An object that is confirmed to be in the archive. `size` is in bytes."""

    key: str
    size: int
    rows: int


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
    _check_rows(table, span)
    seals = Seals(log_id, previous_crc, list(seal_crcs))
    return _put_owned(
        objects, place, span, seals, lambda: _put(objects, *encode(place, span, sorted_rows(table), seals))
    )


def put_snapshot(
    objects: Objects, place: Place, span: Span, batches: Iterable[pa.RecordBatch], seals: Seals, path: Path
) -> Stored | None:
    """Store the rows of a snapshot, which begin an archive, and return when they are confirmed; None if there are no rows.

    `batches` are in object order (key, then newest first), and `span` has a horizon. Memory holds one row group. The
    object is written to the new file `path` first, which the caller deletes. Raises as `put_segment`.
    """
    written = write_file(path, place, lambda: span, batches, seals)
    if written is None:
        return None
    return _put_owned(objects, place, span, seals, lambda: _put(objects, written, path))


def put_rows(
    objects: Objects, place: Place, span: Span, batches: Iterable[pa.RecordBatch], seals: Seals, path: Path
) -> Stored:
    """`put_segment` of rows that come as a stream, in object order. See `put_snapshot` for `path` and for the memory.

    Raises `KvwalError` if the rows are not as many as the sequences of the span.
    """
    written = write_file(path, place, lambda: span, batches, seals)
    rows, wanted = written.rows if written is not None else 0, span.last - span.first + 1
    if written is None or rows != wanted:
        raise KvwalError(f"The rows of sequences {span.first}–{span.last} are not that range: {rows} rows.")
    return _put_owned(objects, place, span, seals, lambda: _put(objects, written, path))


def _put_owned(
    objects: Objects, place: Place, span: Span, seals: Seals, put: Callable[[], tuple[Stored, bool]]
) -> Stored:
    """Put an object of the log that owns the place, before and after the put; see `put_segment`."""
    require_owner(objects, place, seals.log_id)
    stored, is_new = put()
    # if ownership was lost meanwhile, the object stays: readers ignore what a log put after its fence
    objects.look_again()
    require_owner(objects, place, seals.log_id)
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
    """The key of an overlapping object of the same log id whose seals diverge from ours: a copy of the log's folder put it.

    None if there is none.

    The caller asks after its put: of two processes that put at once, the later one sees the object of the other.
    """
    for other, (key, size, modified_ms) in list_spans(objects, place).items():
        if other == span or other.last < span.first or span.last < other.first:
            continue
        try:
            footer = read_info(objects, key, size, modified_ms).footer
        except ObjectMissing:  # compaction superseded it, or the other process saw our object and deleted its own
            continue
        # of one chain, the last seal of the object that ends earlier is in the other, too
        shorter, longer = (footer.seal_crcs, seals.seal_crcs)[:: 1 if other.last <= span.last else -1]
        if footer.log_id == seals.log_id and not set(shorter[-1:]) <= set(longer):
            return key
    return None


def put_object(objects: Objects, place: Place, span: Span, table: pa.Table, seals: Seals) -> Stored:
    """Encode a sorted table, put it unless it exists already, and return when it is confirmed.

    An object that a fenced log put under the same key is replaced: no reader counts it, and its log still has the entries.
    """
    return _put(objects, *encode(place, span, table, seals))[0]


def put_file(objects: Objects, footer: Footer, path: Path) -> Stored:
    """`put_object` of an object that is in a local file."""
    return _put(objects, footer, path)[0]


def write_file(
    path: Path, place: Place, span: Callable[[], Span], batches: Iterable[pa.RecordBatch], seals: Seals
) -> Footer | None:
    """Write an object with these rows into the new file `path`, and return the record in its footer; None if there are no rows.

    Memory holds one row group. `batches` are in object order. `span` is called after the last row.
    """
    with path.open("x+b") as file:
        if not write_object(file, place, span, row_groups(batches), seals):
            return None
        return read_footer(file, object_key(place, span()))


def _put(objects: Objects, footer: Footer, data: Body) -> tuple[Stored, bool]:
    """Put the object. Returns it, and whether this call put it."""
    key = object_key(footer.place, footer.span)
    if not objects.put_if_absent(key, data):
        existing, its_footer = _read_whole(objects, key, size_of(data))
        if not _is_fenced(objects, its_footer):
            return _confirm_ours(objects, existing, its_footer, footer), False
        objects.delete(key)
        if not objects.put_if_absent(key, data):
            return _confirm_ours(objects, *_read_whole(objects, key, size_of(data)), footer), False
    objects.confirm(key, data)
    return Stored(key, size_of(data), footer.rows), True


def _read_whole(objects: Objects, key: str, about: int) -> tuple[Stored, Footer]:
    """An object that exists, and its footer, after a check of every byte. `about` is its estimated size in bytes."""
    with objects.scratch(about if objects.copies_on_fetch else 0) as folder:
        path = objects.fetch(key, folder)
        with open_copy(path) as file:
            footer = read_footer(file, key, whole=True)
        return Stored(key, path.stat().st_size, footer.rows), footer


def _is_fenced(objects: Objects, footer: Footer) -> bool:
    """Whether another log took over before the range of this object began."""
    registration = owner(objects, footer.place)
    owned_range = registration.range_of(footer.log_id) if registration is not None else None
    return owned_range is not None and owned_range[1] is not None and owned_range[1] < footer.span.first


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
    """The record in the footer of an object, and the object's bytes. `table` is sorted already, and not empty. Pure."""
    file = io.BytesIO()
    write_object(file, place, lambda: span, groups_of(table), seals)
    return read_footer(file, object_key(place, span)), file.getvalue()


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
