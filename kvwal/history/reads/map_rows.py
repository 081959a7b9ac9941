"""The rows of a map among the rows of an archive: without those that kvwal keeps for itself, and those of a destroyed map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kvwal.history.reads.entry_rows import entries_of
from kvwal.key_class import DROPPED, OWN_MAP, is_ended_by_destroy, structure_of
from kvwal.structures.destroyed import SKEW, Marks, to_marks
from kvwal_archive import view
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.key_ranges import KeyRange

if TYPE_CHECKING:
    import pyarrow as pa


def marks_of(objects: Objects, where: tuple[str, str, str], at: int | None = None, tails: view.Tails = ()) -> Marks:
    """The marks of the map's destruction, up to `at`, in all logs. `tails` are rows that only logs hold."""
    rows = view.history(objects, *where, key_class=DROPPED, key=None, tails=tails)
    return to_marks(zip(rows.column("node").to_pylist(), entries_of(rows), strict=True), at)


def rows_of_map(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of the business's own map: none of those that kvwal keeps for itself. Also of a table."""
    return rows_of_structure(rows, OWN_MAP)


def rows_of_structure(rows: pa.RecordBatch, structure: str) -> pa.RecordBatch:
    """The rows of a structure. Also of a table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [name for name in pc.unique(rows.column("key_class")).to_pylist() if structure_of(name) == structure]
    return rows.filter(pc.is_in(rows.column("key_class"), value_set=pa.array(names, pa.string())))


def expired_rows(batch: pa.RecordBatch, now_ms: int) -> pa.BooleanArray:
    """Mask of the rows that have expired by `now_ms`."""
    import pyarrow.compute as pc

    expires = batch.column("expires")
    return pc.and_(pc.greater(expires, 0), pc.less_equal(expires, now_ms))


def dropped_rows(batch: pa.RecordBatch, marks: Marks, skew: int = SKEW) -> pa.BooleanArray:
    """Mask of the rows that a destruction of the map voids: see `Marks.ended`. `skew` is the greatest difference between the
    members' clocks, in units of timestamps."""
    import pyarrow.compute as pc

    timestamp, node = batch.column("timestamp"), batch.column("node")
    dropped = pc.less_equal(timestamp, marks.last - skew)
    for name, mark in marks.own.items():
        dropped = pc.or_(dropped, pc.and_(pc.equal(node, name), pc.less_equal(timestamp, mark)))
    return dropped


def ended_rows(batch: pa.RecordBatch, marks: Marks, skew: int = SKEW) -> pa.BooleanArray:
    """`dropped_rows`, but for the marks themselves and the schemas, which outlive a destruction."""
    import pyarrow as pa
    import pyarrow.compute as pc

    key_class = batch.column("key_class")
    ended = [name for name in pc.unique(key_class).to_pylist() if is_ended_by_destroy(name)]
    return pc.and_(dropped_rows(batch, marks, skew), pc.is_in(key_class, value_set=pa.array(ended, pa.string())))


def without_destroyed(batches: Iterator[pa.RecordBatch], marks: Marks) -> Iterator[pa.RecordBatch]:
    """These rows without the marks, and without the rows that the marks void."""
    import pyarrow.compute as pc

    for batch in batches:
        gone = pc.equal(batch.column("key_class"), DROPPED)
        yield batch.filter(pc.invert(pc.or_(gone, ended_rows(batch, marks)) if marks.own else gone))


def map_rows(
    objects: Objects,
    where: tuple[str, str, str],
    skew: int = SKEW,
    *,
    nodes: Mapping[str, int | None] | None = None,
    tails: view.Tails = (),
    at: int | None = None,
    ranges: Sequence[KeyRange] | None = None,
    structure: str | None = OWN_MAP,
) -> Iterator[pa.RecordBatch]:
    """The latest rows of a structure in the archive and these tails, up to the timestamp `at`, in the order of identity; without
    a structure those of all.

    Deletes are left out, and so is all that is void because the map was destroyed; see `dropped_rows` for `skew`. Expired entries
    are not left out. With `ranges` only rows with these identities come. The merge streams, and ends with the iterator. Raises as
    `view.latest_of`.
    """
    import pyarrow.compute as pc

    marks = marks_of(objects, where, at=at, tails=tails)
    node_parts = view.latest_parts(objects, *where, nodes, at)
    for batch in view.latest_of(objects, node_parts, tails, at, ranges):
        rows = batch.filter(pc.invert(batch.column("deleted")))
        rows = rows if structure is None else rows_of_structure(rows, structure)
        yield rows.filter(pc.invert(dropped_rows(rows, marks, skew))) if marks.own else rows
