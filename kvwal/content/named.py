"""The claims that the files of a log name: of its segments every one, of its snapshot those of the latest entries.

All that must know which claim files a log names asks here, and so goes by one rule, `has_claim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from kvwal.content.claim import Claim, claim_of, has_claim, name_of, what_of
from kvwal.entry import Decode, Entry
from kvwal.errors import ContentDamaged
from kvwal.key_class import CONTENT
from kvwal.log.files.format import FORMAT, WITH_CONTENT, WITH_LARGE_VALUES
from kvwal.log.files.segment import SealedSegment
from kvwal.log.files.snapshot_reader import open_snapshot
from kvwal.log.overflow.read import sealed_blocks
from kvwal.log.reader import log_files, read_header
from kvwal.ports.disk import Disk

Identity: TypeAlias = tuple[str, bytes]
ALL: tuple[Identity, Identity] = (("", b""), (chr(0x10FFFF), b""))
"""The identities of all entries."""
CONTENT_RANGE: tuple[Identity, Identity] = ((f"{CONTENT}/", b""), (f"{CONTENT};", b""))
"""The identities of contents, from the first to before the second: `;` follows `:` and `/`."""


class NamedClaim(NamedTuple):
    """A claim, and the name of the content, or the key of the value, that has it."""

    name: str
    claim: Claim
    what: str
    """The content or the value, as errors name it."""


Unreadable = Callable[[str, ContentDamaged], None]
"""Is told of an entry whose value is no claim of this version: the name of its content, and the error. May raise it."""


def claims_of(entries: Iterable[Entry], unreadable: Unreadable) -> Iterator[NamedClaim]:
    """The claims among these entries."""
    for entry in entries:
        if has_claim(entry):
            try:
                claim = claim_of(entry)
            except ContentDamaged as error:
                unreadable(name_of(entry), error)
                continue
            yield NamedClaim(name_of(entry), claim, what_of(entry))


def by_file(named: Iterable[NamedClaim]) -> dict[str, list[NamedClaim]]:
    """The claims on each claim file."""
    found: dict[str, list[NamedClaim]] = {}
    for one in named:
        found.setdefault(one.claim.file, []).append(one)
    return found


def claims_of_segments(
    disk: Disk, segments: Sequence[SealedSegment], decode: Decode, unreadable: Unreadable
) -> Iterator[NamedClaim]:
    """The claims of all entries of some segments. Those whose format has no claims are not read. Raises `CorruptLog`."""
    for segment in segments:
        if read_header(disk, segment.path).format >= WITH_CONTENT:
            for _, entries in sealed_blocks(disk, segment, decode):
                yield from claims_of(entries, unreadable)


def claims_of_snapshot(disk: Disk, folder: Path, decode: Decode, unreadable: Unreadable) -> Iterator[NamedClaim]:
    """The claims of the latest entries in a snapshot. Of one that has no large values only the contents are read.

    Raises `CorruptLog`.
    """
    snapshot = open_snapshot(disk, folder, log_files(disk, folder)[1])
    if snapshot is not None and snapshot.header.format >= WITH_CONTENT:
        yield from claims_of(snapshot.between(decode, *claims_range(snapshot.header.format)), unreadable)


def newest_format(disk: Disk, folder: Path) -> int:
    """The newest format of the segments and of the snapshot of the log in `folder`. Raises `CorruptLog`."""
    newest = FORMAT
    for files in log_files(disk, folder):
        for file in files:
            with suppress(FileNotFoundError):  # the process that has the log has dropped it meanwhile
                newest = max(newest, read_header(disk, folder / file.name).format)
    return newest


def claims_range(format: int) -> tuple[Identity, Identity]:
    """The identities that may have claims in files of a format up to this one: from the first to before the second."""
    return ALL if format >= WITH_LARGE_VALUES else CONTENT_RANGE
