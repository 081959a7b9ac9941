"""Reads of a store that is not an archive: the folder of an embedded store or node, or a running cluster. One task reads all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kvwal.entry import DataEntry, Entry
from kvwal.key_class import OWN_MAP
from kvwal.location.opening import Names, open_reader
from kvwal.location.parse import parse_location
from kvwal.ports.disk import OS_DISK
from kvwal.sql.rows import pieces
from kvwal_archive.parquet.key_ranges import KeyRange

if TYPE_CHECKING:
    import pyarrow as pa


def stored_rows(
    store: str, where: tuple[str, str, str], ranges: Sequence[KeyRange], structure: str = OWN_MAP
) -> Iterator[pa.RecordBatch]:
    """The live rows of a structure whose identities are in `ranges`, which are sorted, as columns of the archive's rows.

    They are of one moment, with what is not archived yet. `node` and `sequence` are null: a merged read does not have them.
    Raises ConfigError, ClusterUnreachable and the errors of a store that cannot be read.
    """
    namespace, cluster, business = where
    with open_reader(parse_location(OS_DISK, store), Names(namespace, cluster)) as location:
        reader = location.read_business(business, logged=True)
        if structure != OWN_MAP:
            entries = reader.of_structure(structure, ranges) or iter(())
        elif list(ranges) == [KeyRange()]:
            entries = reader.entries()
        else:
            entries = reader.select(lambda key, key_class: _is_in(ranges, (key_class, key)))
        for piece in pieces(entries):
            yield _rows(piece)


def _is_in(ranges: Sequence[KeyRange], identity: tuple[str, bytes]) -> bool:
    return any(key_range.low <= identity < key_range.high for key_range in ranges)


def _rows(entries: Sequence[Entry | DataEntry]) -> pa.RecordBatch:
    import pyarrow as pa

    count = len(entries)
    return pa.RecordBatch.from_pydict({
        "key": pa.array([entry.key for entry in entries], pa.binary()),
        "key_class": pa.array([entry.key_class for entry in entries], pa.string()),
        "value": pa.array([entry.value for entry in entries], pa.binary()),
        "value_class": pa.array([entry.value_class for entry in entries], pa.string()),
        "deleted": pa.array([False] * count, pa.bool_()),
        "timestamp": pa.array([entry.timestamp for entry in entries], pa.int64()),
        "sequence": pa.nulls(count, pa.int64()),
        "node": pa.nulls(count, pa.string()),
    })  # fmt: skip
