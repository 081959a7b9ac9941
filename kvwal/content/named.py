"""The claims that the files of a log name: of its segments every one, of its snapshot those of the latest entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kvwal.content.claim import Claim, claim_of, is_content, name_of
from kvwal.entry import Decode, Entry
from kvwal.errors import ContentDamaged
from kvwal.key_class import CONTENT
from kvwal.log.files.format import WITH_CONTENT
from kvwal.log.files.segment import SealedSegment
from kvwal.log.files.snapshot_reader import open_snapshot
from kvwal.log.overflow.read import sealed_blocks
from kvwal.log.reader import log_files, read_header
from kvwal.ports.disk import Disk

CONTENT_RANGE = ((f"{CONTENT}/", b""), (f"{CONTENT};", b""))
"""The identities of contents, from the first to before the second: `;` follows `:` and `/`."""


class NamedClaim(NamedTuple):
    """A claim, and the name of the content that has it."""

    name: str
    claim: Claim


Unreadable = Callable[[str, ContentDamaged], None]
"""Is told of a content whose value is no claim of this version: its name, and the error. May raise it."""


def claims_of(entries: Iterable[Entry], unreadable: Unreadable) -> Iterator[NamedClaim]:
    """The claims of the contents among these entries."""
    for entry in entries:
        if not entry.deleted and is_content(entry.key_class):
            try:
                claim = claim_of(entry)
            except ContentDamaged as error:
                unreadable(name_of(entry), error)
                continue
            yield NamedClaim(name_of(entry), claim)


def by_file(named: Iterable[NamedClaim]) -> dict[str, list[NamedClaim]]:
    """The claims on each claim file."""
    found: dict[str, list[NamedClaim]] = {}
    for one in named:
        found.setdefault(one.claim.file, []).append(one)
    return found


def claims_of_segments(
    disk: Disk, segments: Sequence[SealedSegment], decode: Decode, unreadable: Unreadable
) -> Iterator[NamedClaim]:
    """The claims of all entries of some segments. Those whose format has no contents are not read. Raises `CorruptLog`."""
    for segment in segments:
        if read_header(disk, segment.path).format >= WITH_CONTENT:
            for _, entries in sealed_blocks(disk, segment, decode):
                yield from claims_of(entries, unreadable)


def claims_of_snapshot(disk: Disk, folder: Path, decode: Decode, unreadable: Unreadable) -> Iterator[NamedClaim]:
    """The claims of the latest entries in a snapshot. Nothing else of it is read. Raises `CorruptLog`."""
    snapshot = open_snapshot(disk, folder, log_files(disk, folder)[1])
    if snapshot is not None and snapshot.header.format >= WITH_CONTENT:
        yield from claims_of(snapshot.between(decode, *CONTENT_RANGE), unreadable)
