"""Whether a file stands where it was written for, and follows what stands before it: one answer for recovery, readers, verify.

Pure. The answer is None or a sentence; what kind of error that is decides whoever asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from archive.layout import Place
from kvwal.errors import ConfigError
from kvwal.log.files.format import Header, SnapshotHeader
from kvwal.log.files.names import LogFile

BROKEN = "the chain of seals is broken: this segment does not follow the one before it."
BROKEN_DELTA = "the chain of seals is broken: this delta does not follow the part of the snapshot below it."


def misplaced(header: Header, place: Place) -> str | None:
    """What is wrong with a file of this header in the folder of `place`."""
    written = Place(header.namespace, header.cluster, header.business, header.node)
    return None if written == place else f"it was written as {'/'.join(written)}, and does not belong here."


def check_belongs(header: Header, place: Place, folder: Path) -> None:
    """`ConfigError` if a log that is to be used was written as another one."""
    wrong = misplaced(header, place)
    if wrong is not None:
        raise ConfigError(f"{folder}: {wrong}", hint="A log cannot be renamed by moving its folder: move it back.")


def unlinked(header: Header, wanted: int, crc: int) -> str | None:
    """What is wrong with a segment where one is wanted that begins with the sequence `wanted` and follows the seal `crc`."""
    if header.first_sequence != wanted:
        return missing(header.first_sequence, wanted)
    return None if header.previous_crc == crc else BROKEN


def snapshot_parts(snapshots: Iterable[LogFile]) -> list[LogFile]:
    """The files that are the newest snapshot together, newest first: deltas, and the base below them.

    Of files that overlap the wider one counts: a merge was killed before it removed what it had merged. If a part is missing,
    the last one of the list is no base.
    """
    left = list(snapshots)
    parts: list[LogFile] = []
    while left:
        begins = parts[-1].first if parts else max(file.number for file in left) + 1
        left = [file for file in left if file.first < begins]
        below = [file for file in left if file.number >= begins - 1]
        if not below:
            break
        parts.append(min(below, key=lambda file: (file.first, -file.number)))
    return parts


def superseded(snapshots: Iterable[LogFile], parts: Iterable[LogFile]) -> list[LogFile]:
    """The files that one of these durable parts holds all of. Nothing else may go: an archiver that outlived its killed parent
    may be at work on other parts, and no two that hold each other's sequences may ever be let go of for each other.
    """
    by = list(parts)
    return [
        file
        for file in snapshots
        if any(part != file and part.first <= file.first and file.number <= part.number for part in by)
    ]


def lacking(parts: list[LogFile]) -> str | None:
    """What is wrong with the parts of a snapshot if one is missing."""
    if not parts or parts[-1].first == 1:
        return None
    return f"a part of the snapshot is missing: what stands before sequence {parts[-1].first}."


class Part(NamedTuple):
    """What a part of a snapshot says of itself: the sequences that it holds, and the seals before and behind them."""

    log_id: str
    first: int
    last: int
    previous_crc: int
    last_crc: int


def part_of(header: SnapshotHeader) -> Part:
    """What the header of a part says."""
    return Part(header.log_id, header.first_sequence, header.last_sequence, header.previous_crc, header.last_crc)


def unlinked_part(part: Part, file: LogFile, below: Part | None) -> str | None:
    """What is wrong with a part of a snapshot under this name, above the part `below`."""
    if (part.first, part.last) != (file.first, file.number):
        return f"its header says that it holds sequences {part.first} to {part.last}."
    if below is None:
        return None
    if part.log_id != below.log_id:
        return "it is of another log than the part of the snapshot below it."
    follows = below.last == part.first - 1  # else they overlap, and there is no seal to compare
    return BROKEN_DELTA if follows and part.previous_crc != below.last_crc else None


def missing(found: int, wanted: int) -> str:
    """What is said of a log that goes on with another sequence than `wanted`."""
    return f"the log goes on with sequence {found}, and {wanted} is missing."
