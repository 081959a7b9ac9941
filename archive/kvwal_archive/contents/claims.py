"""The claims in the rows of objects: which stretch of which claim file each content names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import LOGICAL_BITS
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.columns import BATCH_ROWS, open_ranges
from kvwal_archive.parquet.key_ranges import structure_ranges
from kvwal_archive.parquet.metadata import as_damage
from kvwal_archive.reader import ObjectInfo, covered, listed_again, live_objects
from kvwal_archive.registry import registered

CONTENT = "content"
"""The kind of the structures that are contents, as it begins the class of a key."""
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


class NamedFiles:
    """The claim files that the objects of a business name, `files`.

    `passed_ms` is the time (unix ms) up to which every registered node is archived; None if a range of a log is missing.
    """

    def __init__(self, files: set[str], passed_ms: int | None) -> None:
        self.files = files
        self.passed_ms = passed_ms


def named_files(objects: Objects, where: Where) -> NamedFiles:
    """What the objects of a business name. Raises ArchiveDamaged for a claim that cannot be read, ArchiveError."""
    return listed_again(partial(_named_files, objects, where))


def _named_files(objects: Objects, where: Where) -> NamedFiles:
    files: set[str] = set()
    passed: list[int] = []
    for place in registered(objects, *where):
        live = live_objects(objects, place)
        reached = covered(live)
        passed.append(-1 if reached.gaps else reached.max_timestamp >> LOGICAL_BITS)
        for info in live:
            files.update(claim.file for _, claim in claims_of(objects, info))
    least = min(passed, default=-1)
    return NamedFiles(files, None if least < 0 else least)


def claims_of(objects: Objects, info: ObjectInfo) -> Iterator[tuple[str, ArchivedClaim]]:
    """The claims of one object, each with the name of its content. Only row groups with contents are read.

    Raises ArchiveDamaged, ArchiveError, ObjectMissing.
    """
    ranges = sorted(structure_ranges(f"{CONTENT}/*"))
    with open_ranges(objects, info, ranges) as columns, as_damage(info.key):
        for batch in columns.batches(BATCH_ROWS):
            for key_range in ranges:
                rows = key_range.rows(batch)
                for row in rows.select(["key", "value", "deleted"]).to_pylist():
                    if not row["deleted"]:
                        yield row["key"].decode(errors="replace"), _claim(objects, info, row["value"])
        columns.check()


def _claim(objects: Objects, info: ObjectInfo, value: bytes) -> ArchivedClaim:
    try:
        return _decode(value)
    except msgspec.DecodeError as error:
        raise ArchiveDamaged(
            f"{objects.url}: {info.key} has the value of a content that is no claim: {error}.",
            hint="A newer version may have written it: nothing is removed. Upgrade kvwal.",
        ) from error
