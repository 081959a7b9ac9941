"""Reads of some columns of an object, or of the rows of one key. Every byte of the columns is checked, no other is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec

from kvwal_archive.objects import Objects, Range
from kvwal_archive.parquet.chunks import DIGITS, Chunk, ChunkFile, chunks_of
from kvwal_archive.parquet.kept_object import kept_object, known_objects
from kvwal_archive.parquet.key_ranges import KeyRange, class_range, key_range, keys_sought, rows_within
from kvwal_archive.parquet.lookup import Sought, candidates, find_groups
from kvwal_archive.parquet.metadata import as_damage, check_body, check_unchanged, damaged, read_metadata
from kvwal_archive.parquet.rows import COLUMNS, ObjectInfo, schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BATCH_ROWS, BATCH_BYTES = 16 << 10, 2 << 20
"""The most rows of a batch, and about how many bytes they have: each batch costs some calls, and is in memory."""
BUFFER_BYTES = 256 << 10


class Columns(NamedTuple):
    """Columns of some row groups of an open object."""

    key: str
    names: list[str]
    groups: list[int]
    row_bytes: int
    """The average length of key and value of the object's rows."""
    parquet: pq.ParquetFile
    chunks: ChunkFile

    def batches(self, rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, in batches of `rows`, or of about `BATCH_BYTES`. They are unchecked until `check` has returned."""
        if self.groups:
            rows = rows or max(1, min(BATCH_ROWS, BATCH_BYTES // self.row_bytes))
            yield from self.parquet.iter_batches(batch_size=rows, row_groups=self.groups, columns=self.names)

    def within(self, ranges: Sequence[KeyRange], rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of the ranges, in order, in batches that are not empty. After the last one every byte is checked."""
        with as_damage(self.key):
            for batch in self.batches(rows):
                yield from rows_within(batch, ranges)
            self.check()

    def check(self) -> None:
        """Raise ArchiveDamaged if a byte of these columns is not as it was written. Bytes not read yet are read."""
        if differing := self.chunks.differing():
            raise damaged(self.key, f"bytes {differing.begin} to {differing.end} do not match their checksum")


@contextmanager
def open_columns(
    objects: Objects, info: ObjectInfo, columns: Sequence[str], wanted: Mapping[str, Any] | None = None
) -> Iterator[Columns]:
    """The columns `columns`, and those of `wanted`, of the row groups that may hold rows with the values of `wanted`.

    Raises ArchiveDamaged, ArchiveError, ObjectMissing. Parquet's errors in the `with` block become ArchiveDamaged.
    """
    named = wanted or {}
    names = [name for name in COLUMNS if name in columns or name in named]
    with _open(objects, info, names, lambda group: _sought(group, named), BUFFER_BYTES) as opened:
        yield opened


@contextmanager
def open_ranges(
    objects: Objects, info: ObjectInfo, ranges: Sequence[KeyRange], buffer_bytes: int = BUFFER_BYTES
) -> Iterator[Columns]:
    """All columns of the row groups that may hold identities of the ranges. Other rows of these groups come too.

    About `buffer_bytes` are read ahead for each column. Raises as `open_columns`.
    """
    with _open(objects, info, list(COLUMNS), lambda group: keys_sought(group, ranges), buffer_bytes) as opened:
        yield opened


@contextmanager
def open_value_classes(
    objects: Objects, info: ObjectInfo, columns: Sequence[str], low: str, high: str
) -> Iterator[Columns]:
    """The columns `columns` of the row groups that may hold values with a class from `low` to before `high`. Other rows of these
    groups come too. Raises as `open_columns`.
    """

    def sought(group: Any) -> Sequence[bytes] | None:
        known = group.column(COLUMNS.index("value_class")).statistics
        if known is not None and known.has_min_max and (known.max < low or known.min >= high):
            return ()
        return None

    with _open(objects, info, [name for name in COLUMNS if name in columns], sought, BUFFER_BYTES) as opened:
        yield opened


@contextmanager
def _open(objects: Objects, info: ObjectInfo, names: list[str], sought: Sought, buffer_bytes: int) -> Iterator[Columns]:
    with objects.open(info.key) as file, as_damage(info.key):
        kept = kept_object(objects, info)
        metadata = _read_metadata(file, info) if kept is None else kept.metadata
        found = candidates(info, metadata, sought)
        groups = found.held(_parts(file, found.filters()))
        yield _columns(file, info, metadata, groups, names, buffer_bytes)


@contextmanager
def open_group(objects: Objects, info: ObjectInfo, metadata: pq.FileMetaData, group: int) -> Iterator[Columns]:
    """All columns of one row group of an object whose footer is known. Raises as `open_columns`."""
    with objects.open(info.key) as file, as_damage(info.key):
        yield _columns(file, info, metadata, [group], list(COLUMNS), BUFFER_BYTES)


def _read_metadata(file: BinaryIO, info: ObjectInfo) -> pq.FileMetaData:
    footer, metadata = read_metadata(file, info.key)
    check_unchanged(footer, info)
    return metadata


def _columns(
    file: BinaryIO, info: ObjectInfo, metadata: pq.FileMetaData, groups: list[int], names: list[str], buffer_bytes: int
) -> Columns:
    import pyarrow.parquet as pq

    chunks = ChunkFile(file, _expected(file, info, metadata, groups, names))
    parquet = pq.ParquetFile(
        chunks, metadata=metadata, page_checksum_verification=True, pre_buffer=False, buffer_size=buffer_bytes
    )
    return Columns(info.key, names, groups, info.row_bytes, parquet, chunks)


def _parts(file: BinaryIO, ranges: Iterable[Range]) -> Iterator[bytes]:
    for _, begin, end in ranges:
        file.seek(begin)
        yield file.read(end - begin)


def _expected(
    file: BinaryIO, info: ObjectInfo, metadata: pq.FileMetaData, groups: Iterable[int], names: Sequence[str]
) -> Iterator[tuple[Chunk, str]]:
    """The chunks of these columns of these row groups, with their checksums.

    An object of an earlier version has no checksums of chunks, so all of its bytes are checked here.
    """
    crcs = info.footer.chunk_crcs
    if crcs is msgspec.UNSET:
        check_body(file, info.key, info.footer)
        return
    chunks = chunks_of(metadata)
    if len(crcs) != DIGITS * len(chunks):
        raise damaged(info.key, f"its footer has not the checksums of {len(chunks)} chunks")
    for at in (group * len(COLUMNS) + COLUMNS.index(name) for group in groups for name in names):
        yield chunks[at], crcs[DIGITS * at : DIGITS * (at + 1)]


def _sought(group: Any, wanted: Mapping[str, Any]) -> Sequence[bytes] | None:
    """The keys that are sought in a row group: none if it cannot hold the wanted values, by its least and greatest values."""
    for name, value in wanted.items():
        known = group.column(COLUMNS.index(name)).statistics
        if known is not None and known.has_min_max and not known.min <= value <= known.max:
            return ()
    return (wanted["key"],) if "key" in wanted else None


def find_rows(objects: Objects, info: ObjectInfo, key_class: str, key: bytes) -> pa.Table:
    """The rows of one identity. Reads only the row groups that may hold it, in batches. Raises as `open_columns`."""
    return _find(objects, info, {"key_class": key_class, "key": key}, COLUMNS).cast(schema())


def holding(objects: Objects, infos: Sequence[ObjectInfo], key_class: str, key: bytes | None) -> list[ObjectInfo]:
    """Those of the objects that can hold rows of one identity; without a key, of one class of keys.

    Only footers and filters are read, of all objects at once.
    """
    wanted = {"key_class": key_class} | ({} if key is None else {"key": key})
    if objects.decoded is not None:
        span = class_range(key_class) if key is None else key_range(key_class, key)
        infos = [known.info for known in known_objects(objects, infos) if known.groups([span])]
    return [info for info, _, groups in find_groups(objects, infos, lambda group: _sought(group, wanted)) if groups]


def find_class(objects: Objects, info: ObjectInfo, key_class: str, columns: Sequence[str]) -> pa.Table:
    """The columns `columns` of the rows of one class of key, read as by `find_rows`."""
    return _find(objects, info, {"key_class": key_class}, columns)


def _find(objects: Objects, info: ObjectInfo, wanted: Mapping[str, Any], columns: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    with open_columns(objects, info, columns, wanted) as opened:
        matching = [batch.filter(mask) for batch in opened.batches() if (mask := _equal(batch, wanted)).true_count]
        opened.check()
        fields = pa.schema([opened.parquet.schema_arrow.field(name) for name in opened.names])
        return pa.Table.from_batches(matching, fields).select(list(columns))


def _equal(batch: pa.RecordBatch, wanted: Mapping[str, Any]) -> pa.BooleanArray:
    """For each row, whether it has the wanted values."""
    import pyarrow.compute as pc

    return reduce(pc.and_, [pc.equal(batch.column(name), value) for name, value in wanted.items()])
