"""The claims in the rows of objects: which stretch of which claim file each content, and each large value, names.

All that must know which claim files the archive names asks here: gc, verify, on one machine and on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import LOGICAL_BITS, PUT_FIRST, UNCLAIMED_MS
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.columns import open_ranges, open_value_classes
from kvwal_archive.parquet.key_ranges import structure_ranges
from kvwal_archive.parquet.metadata import as_damage
from kvwal_archive.parquet.rows import ObjectInfo
from kvwal_archive.reader import Coverage, covered, listed_again, live_objects
from kvwal_archive.registry import registered

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("key", "value", "value_class", "deleted")
_CLASS_ROWS = 64 << 10
CONTENT = "content"
"""The kind of the structures that are contents, as it begins the class of a key."""
CLAIMED = "content:"
"""What begins the class of a value whose bytes stand in a claim file: the value of the row is the claim, and the class of the
bytes follows."""
_AFTER_CLAIMED = "content;"
_SKEW_MS = 60_000
"""More than the clocks of two members may differ."""
Where = tuple[str, str, str]
"""Namespace, cluster and business."""


class ArchivedClaim(msgspec.Struct, frozen=True):
    """The fields of a claim that the archive reads: `length` bytes of `file` from `offset` on, with their CRC-32C."""

    file: str
    offset: int
    length: int
    crc32c: int

    @property
    def end(self) -> int:
        """The least size of its file."""
        return self.offset + self.length


_decode = msgspec.json.Decoder(ArchivedClaim).decode


class NamedFiles(NamedTuple):
    """The claim files that the objects of a business name, `files`.

    `passed_ms` is the time (unix ms) up to which every registered node is archived; -1 if a range of a log is missing, or if an
    entry that is in no object yet may be a copy of one that is in no object any more.
    """

    files: set[str]
    passed_ms: int

    def may_go(self, file: str, modified_ms: int) -> bool:
        """Whether no entry names a file that was put at this time, in no object and in no log."""
        claimed_ms = modified_ms + (UNCLAIMED_MS if file.endswith(PUT_FIRST) else 0)
        return file not in self.files and claimed_ms <= self.passed_ms


def named_files(objects: Objects, where: Where) -> NamedFiles:
    """What the objects of a business name. Raises ArchiveDamaged for a claim that cannot be read, ArchiveError."""
    return listed_again(partial(_named_files, objects, where))


def _named_files(objects: Objects, where: Where) -> NamedFiles:
    files: set[str] = set()
    nodes: list[Coverage] = []
    for place in registered(objects, *where):
        live = live_objects(objects, place)
        nodes.append(covered(live))
        for info in live:
            files.update(claim.file for _, claim in claims_of(objects, info))
    return NamedFiles(files, _passed_ms(nodes))


def _passed_ms(nodes: Sequence[Coverage]) -> int:
    """See `NamedFiles`.

    A member of a cluster may log a copy of a content whose own entry is in the log of another member, while that entry is the
    latest one of its name. It leaves the objects only once a later one is before the horizon. So when all nodes are archived up
    to the horizons of the others, the copy is in an object, too. Clocks of members differ by less than `_SKEW_MS`.
    """
    if not nodes or any(node.gaps for node in nodes):
        return -1
    for node, other in permutations(nodes, 2):
        dropped = min(other.horizon, other.max_timestamp)
        if dropped and _ms(node.max_timestamp) < _ms(dropped) + _SKEW_MS:
            return -1
    return min(_ms(node.max_timestamp) for node in nodes)


def _ms(timestamp: int) -> int:
    return timestamp >> LOGICAL_BITS


def claims_of(objects: Objects, info: ObjectInfo) -> Iterator[tuple[str, ArchivedClaim]]:
    """The claims of one object, each with the name of its content, or the key of its value. Only row groups with claims are read,
    and of the others at most the classes of their values.

    Raises ArchiveDamaged, ArchiveError, ObjectMissing.
    """
    ranges = sorted(structure_ranges(f"{CONTENT}/*"))
    with open_ranges(objects, info, ranges) as columns, as_damage(info.key):
        for batch in columns.batches():
            for key_range in ranges:
                rows = key_range.rows(batch)
                yield from _claims_in(objects, info, rows)
        columns.check()
    if not _has_values(objects, info):
        return
    with open_value_classes(objects, info, _COLUMNS, CLAIMED, _AFTER_CLAIMED) as columns, as_damage(info.key):
        for batch in columns.batches():
            yield from _claims_in(objects, info, batch.filter(_is_large(batch)))
        columns.check()


def is_claimed(value_class: str) -> bool:
    """Whether the value of a row with this class is a claim on the bytes of the value."""
    return value_class.startswith(CLAIMED)


def without_mark(value_class: str) -> str:
    """The class of the bytes of a value, also of those in a claim file."""
    return value_class.removeprefix(CLAIMED)


def parsed_claim(where: str, value: bytes) -> ArchivedClaim:
    """The claim that a value is. Raises ArchiveDamaged, which says `where`, if it is none."""
    try:
        return _decode(value)
    except msgspec.DecodeError as error:
        raise ArchiveDamaged(
            f"{where} has a value that is no claim: {error}.",
            hint="A newer version may have written it: nothing is removed. Upgrade kvwal.",
        ) from error


def _has_values(objects: Objects, info: ObjectInfo) -> bool:
    """Whether an object has a large value. Of its row groups only the classes of values are read."""
    with open_value_classes(objects, info, ["value_class"], CLAIMED, _AFTER_CLAIMED) as columns, as_damage(info.key):
        found = any(_is_large(batch).true_count for batch in columns.batches(_CLASS_ROWS))
        columns.check()
    return found


def _is_large(rows: pa.RecordBatch) -> pa.BooleanArray:
    import pyarrow.compute as pc

    return pc.starts_with(rows.column("value_class"), CLAIMED)


def _claims_in(objects: Objects, info: ObjectInfo, rows: pa.RecordBatch) -> Iterator[tuple[str, ArchivedClaim]]:
    for row in rows.select(["key", "value", "deleted"]).to_pylist():
        if not row["deleted"]:
            claim = parsed_claim(f"{objects.url}: {info.key}", row["value"])
            yield row["key"].decode(errors="replace"), claim
