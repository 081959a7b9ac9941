"""The chain of a log's files: checks that a file belongs to its folder and continues the file before it.

Recovery, readers and `kvwal log verify` use the same checks. They are pure functions. Each returns None or a sentence that says
what is wrong; the caller chooses the error class.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import ConfigError
from kvwal.log.files.format import Header, SnapshotHeader
from kvwal.log.files.names import LogFile
from kvwal_archive.layout import Place

BROKEN = "the chain of seals is broken: this segment does not follow the one before it."
BROKEN_DELTA = "the chain of seals is broken: this delta does not follow the part of the snapshot below it."


def placement_problem(header: Header, place: Place) -> str | None:
    """The problem if a file with this header lies in the folder of `place`, None if it belongs there."""
    written = Place(header.namespace, header.cluster, header.business, header.node)
    return None if written == place else f"it was written as {'/'.join(written)}, and does not belong here."


def check_belongs(header: Header, place: Place, folder: Path) -> None:
    """Raise `ConfigError` if the log in `folder` was written as another log."""
    problem = placement_problem(header, place)
    if problem is not None:
        raise ConfigError(f"{folder}: {problem}", hint="A log cannot be renamed by moving its folder: move it back.")


def link_problem(header: Header, wanted: int, crc: int) -> str | None:
    """The problem of a segment that has to begin with the sequence `wanted` and to follow the seal `crc`."""
    if header.first_sequence != wanted:
        return gap_problem(header.first_sequence, wanted)
    return None if header.previous_crc == crc else BROKEN


def snapshot_parts(snapshots: Iterable[LogFile]) -> list[LogFile]:
    """The files of the newest snapshot, newest first: its deltas, then its base.

    If files overlap, the wider one counts: a merge was killed before it removed the files that it had merged. If a part is
    missing, the last file of the list is not a base.
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
    """The files whose sequences one of these durable parts holds completely. They may be deleted, and no others.

    An archiver that outlived its killed parent may be writing other parts. Two files that hold the same sequences must never be
    deleted in favour of each other.
    """
    durable = list(parts)
    return [
        file
        for file in snapshots
        if any(part != file and part.first <= file.first and file.number <= part.number for part in durable)
    ]


def missing_part_problem(parts: list[LogFile]) -> str | None:
    """The problem of a snapshot without its base or without a delta, None if all parts are there."""
    if not parts or parts[-1].first == 1:
        return None
    return f"a part of the snapshot is missing: the entries before sequence {parts[-1].first}."


class SnapshotPart(NamedTuple):
    """A part of a snapshot by its header: its log, its first and last sequence, and the seals before and after them."""

    log_id: str
    first: int
    last: int
    previous_crc: int
    last_crc: int


def snapshot_part(header: SnapshotHeader) -> SnapshotPart:
    """The part that this header describes."""
    return SnapshotPart(
        header.log_id, header.first_sequence, header.last_sequence, header.previous_crc, header.last_crc
    )


def part_problem(part: SnapshotPart, file: LogFile, below: SnapshotPart | None) -> str | None:
    """The problem of a part of a snapshot in the file `file`, above the part `below` (None: there is none)."""
    if (part.first, part.last) != (file.first, file.number):
        return f"its header says that it holds sequences {part.first} to {part.last}."
    if below is None:
        return None
    if part.log_id != below.log_id:
        return "it belongs to another log than the part of the snapshot below it."
    follows = below.last == part.first - 1  # if not, the parts overlap, and there is no seal to compare
    return BROKEN_DELTA if follows and part.previous_crc != below.last_crc else None


def gap_problem(first: int, wanted: int) -> str:
    """The problem of a log that continues with the sequence `first` where `wanted` is expected."""
    return f"the log continues with sequence {first}, and sequence {wanted} is missing."
