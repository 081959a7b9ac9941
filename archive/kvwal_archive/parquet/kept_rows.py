"""Rows of a few keys for a reader that stays open: the row groups that it decodes are kept for the next questions.

A page about one application asks ten times for keys that stand side by side. Where a question finds no key in a row group, the
gap between the keys there is noted: objects often have keys below and above all that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvwal_archive.objects import Objects
from kvwal_archive.parquet.columns import open_group
from kvwal_archive.parquet.kept_object import KeptObject, known_objects, version
from kvwal_archive.parquet.key_ranges import Identity, KeyRange, next_identity, only_keys
from kvwal_archive.parquet.lookup import Groups
from kvwal_archive.parquet.rows import ObjectInfo

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_GROUPS, _MOST_BYTES = 8, 64 << 20
"""Row groups of one object, and their bytes: a question that needs more reads much of the archive, which is not to be kept."""
_FEW = 4
"""A part of a row group that is smaller by this factor is copied, so that it does not hold the row group in memory."""


class _KeptGroup:
    """The rows of a row group, decoded and checked."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.rows = rows
        self.held_bytes = int(rows.nbytes)


def kept_rows(objects: Objects, info: ObjectInfo, ranges: Sequence[KeyRange]) -> list[pa.RecordBatch] | None:
    """The rows of the ranges, in order, in batches that are not empty. None: nothing is kept, or these are too many rows for it.

    Raises ArchiveDamaged, ArchiveError, ObjectMissing.
    """
    if objects.decoded is None:
        return None
    (kept,) = known_objects(objects, [info])
    groups = kept.groups(ranges)
    if len(groups) > _MOST_GROUPS or not all(map(kept.may_be_kept, groups)) or kept.bytes_of(groups) > _MOST_BYTES:
        return None
    unread = {group: only_keys(wanted) for group, wanted in groups.items() if not _is_kept(objects, info, group)}
    sought = Groups(info, kept.metadata, unread)
    without = unread.keys() - set(sought.held(iter(objects.read_ranges(sought.filters()))))
    return [
        rows
        for group, wanted in groups.items()
        if group not in without
        for rows in _within(kept, group, _rows_of(objects, kept, group), wanted)
    ]


def end_of_rows(objects: Objects, infos: Sequence[ObjectInfo], wanted: KeyRange, count: int) -> Identity:
    """An identity before which one of the objects has `count` rows of the range, or the rest of a row group: for a page of keys.

    The end of the range if no object has rows of it, or if nothing is kept. Raises as `kept_rows`.
    """
    if objects.decoded is None:
        return wanted.high
    ends = [end for kept in known_objects(objects, infos) if (end := _end_within(objects, kept, wanted, count))]
    return min([wanted.high, *ends])


def _end_within(objects: Objects, kept: KeptObject, wanted: KeyRange, count: int) -> Identity | None:
    for group in kept.groups([wanted]):
        if not kept.may_be_kept(group):
            return min(wanted.high, next_identity(kept.bounds[group][1]))
        if (end := wanted.end_of(_rows_of(objects, kept, group), count)) is not None:
            return end
    return None


def _is_kept(objects: Objects, info: ObjectInfo, group: int) -> bool:
    return objects.decoded is not None and objects.decoded.found((version(info), group)) is not None


def _rows_of(objects: Objects, kept: KeptObject, group: int) -> pa.RecordBatch:
    """The rows of a row group, read unless they are kept. What is known of the object outlives them."""
    place = version(kept.info), group
    found = None if objects.decoded is None else objects.decoded.found(place)
    if isinstance(found, _KeptGroup):
        return found.rows
    rows = _read(objects, kept, group)
    if objects.decoded is not None:
        objects.decoded.put(place, _KeptGroup(rows))
        objects.decoded.put(version(kept.info), kept)
    return rows


def _read(objects: Objects, kept: KeptObject, group: int) -> pa.RecordBatch:
    import pyarrow as pa

    with open_group(objects, kept.info, kept.metadata, group) as columns:
        rows = pa.Table.from_batches(columns.batches()).combine_chunks()
        columns.check()
    (batch,) = rows.to_batches()
    return batch


def _within(kept: KeptObject, group: int, rows: pa.RecordBatch, ranges: Sequence[KeyRange]) -> list[pa.RecordBatch]:
    """The rows of the ranges. Where there are none, the gap is noted."""
    found = []
    for one in ranges:
        part = one.rows(rows)
        if part.num_rows:
            found.append(_apart(part) if part.num_rows * _FEW < rows.num_rows else part)
        else:
            kept.note_gap(group, one.gap(rows))
    return found


def _apart(part: pa.RecordBatch) -> pa.RecordBatch:
    """A copy of these rows."""
    import pyarrow as pa

    return part.take(pa.array(range(part.num_rows), pa.int32()))
