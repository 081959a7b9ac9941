"""Rows, logs and archives for the tests of the archive."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvwal_archive import registry
from kvwal_archive.layout import Place, Span
from kvwal_archive.merge import Row
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.rows import COLUMNS, node_schema, schema
from kvwal_archive.writer import Stored, put_segment

if TYPE_CHECKING:
    import pyarrow as pa

PLACE = Place("ns", "local", "jobs", "node-1")
LOG = "log-1"


def place(node: str = "node-1", business: str = "jobs") -> Place:
    return Place("ns", "local", business, node)


def rows(
    first: int, last: int, *, node: str = "node-1", keys: int = 5, start_ms: int = 1000, seed: int = 0
) -> list[Row]:
    """One row a sequence and a millisecond: puts and a few deletes of `keys` keys, the same ones for the same arguments."""
    return [_row(sequence, node, keys, start_ms, seed) for sequence in range(first, last + 1)]


def _row(sequence: int, node: str, keys: int, start_ms: int, seed: int) -> Row:
    chance = random.Random(f"{node}/{seed}/{sequence}")
    deleted = chance.random() < 0.2
    key = b"key-%03d" % chance.randrange(keys)
    value = b"" if deleted else b"%d" % chance.randrange(1000)
    return Row("str", key, value, "" if deleted else "int", deleted, start_ms + sequence << 16, 0, node, sequence)


def table(found: Iterable[Row]) -> pa.Table:
    """Rows as a table of `SCHEMA`, as a log hands them to the archive."""
    import pyarrow as pa

    return pa.Table.from_pylist([_columns(row, COLUMNS) for row in found], schema=schema())


def merged(found: Iterable[Row]) -> pa.Table:
    """Rows as a table of `SCHEMA` and `node`, as the archive hands them back."""
    import pyarrow as pa

    return pa.Table.from_pylist([_columns(row, node_schema().names) for row in found], schema=node_schema())


def _columns(row: Row, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def from_table(found: pa.Table) -> list[Row]:
    """The rows of a merged table."""
    return [Row(**line) for line in found.to_pylist()]


def fill(
    objects: Objects, where: Place, ranges: Sequence[tuple[int, int]], log_id: str = LOG, **shape: Any
) -> list[Stored]:
    """Registers `log_id` and archives these ranges, as `put` does."""
    registry.register(objects, where, log_id)
    return [put(objects, where, first, last, log_id, **shape) for first, last in ranges]


def put(objects: Objects, where: Place, first: int, last: int, log_id: str = LOG, **shape: Any) -> Stored:
    """Archives one range as segments of one entry, each with its sequence for the crc of its seal."""
    found = table(rows(first, last, node=where.node, **shape))
    seals = list(range(first, last + 1))
    return put_segment(objects, where, Span(first, last), found, log_id=log_id, previous_crc=first - 1, seal_crcs=seals)


def object_paths(folder: Path) -> list[Path]:
    """The files of the objects of an archive in a local folder, by name."""
    return sorted(folder.rglob("*.parquet"))
