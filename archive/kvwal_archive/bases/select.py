"""The choice of the base that a read begins with: the newest one that is complete and that fits the objects.

A base never replaces objects. If none fits, the objects alone give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kvwal_archive.bases.record import Base, BasePosition, decode_base
from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import BaseName, PartNumber, base_folder, base_key, parse_base_key
from kvwal_archive.objects import Listed, Objects
from kvwal_archive.parquet.rows import NewerFormat, ObjectInfo


class LogRead(NamedTuple):
    """What a read takes of one log: its live objects, in log order, and the last sequence to read (None: all)."""

    infos: Sequence[ObjectInfo]
    up_to: int | None = None


class BaseFiles(NamedTuple):
    """The listed files of one base: the commit (None: not there), and the parts by number."""

    commit: Listed | None
    parts: dict[PartNumber, Listed]

    def holds(self, base: Base) -> bool:
        """Whether every part of the base is listed with its size."""
        return all(part.number in self.parts and self.parts[part.number].size == part.size for part in base.parts)


def newest_base(
    objects: Objects, where: tuple[str, str, str], logs: Mapping[str, LogRead], at: int | None = None
) -> Base | None:
    """The newest base of the business that a read of these logs, by node, may begin with; None if there is none.

    With `at` the read is of that timestamp. Raises ArchiveDamaged for a commit that is not what was put, ArchiveError. A base of
    a newer version is passed over.
    """
    for name, files in newest_first(base_files(objects.list(base_folder(*where)))):
        try:
            base = read_base(objects, name, files)
        except NewerFormat:
            continue
        if base is not None and fits(base, logs, at):
            return base
    return None


def newest_first(found: Mapping[BaseName, BaseFiles]) -> list[tuple[BaseName, BaseFiles]]:
    """The bases with a commit: the greatest timestamp first, and of those with one timestamp the one committed last."""
    committed = [(name.timestamp, files.commit.modified_ms, name) for name, files in found.items() if files.commit]
    return [(name, found[name]) for _, _, name in sorted(committed, reverse=True)]


def base_files(listed: Iterable[Listed]) -> dict[BaseName, BaseFiles]:
    """The listed files of bases, by base."""
    found: dict[BaseName, BaseFiles] = {}
    for item in listed:
        if parsed := parse_base_key(item.key):
            name, number = parsed
            files = found.setdefault(name, BaseFiles(None, {}))
            if number is None:
                found[name] = files._replace(commit=item)
            else:
                files.parts[number] = item
    return found


def read_base(objects: Objects, name: BaseName, files: BaseFiles) -> Base | None:
    """The base, if it has a commit and all parts are listed. Raises ArchiveDamaged, NewerFormat, ArchiveError."""
    if files.commit is None:
        return None
    try:
        base = _decoded(objects, name)
    except ObjectMissing:
        return None
    return base if files.holds(base) else None


def _decoded(objects: Objects, name: BaseName) -> Base:
    key = base_key(name)
    try:
        return decode_base(objects.read(key), name)
    except (ArchiveDamaged, NewerFormat):  # of the answer, perhaps, and not of the object
        return decode_base(objects.read_again(key), name)


def fits(base: Base, logs: Mapping[str, LogRead], at: int | None = None) -> bool:
    """Whether the base holds exactly what these logs hold up to its positions, as far as a read of `at` can tell. Pure."""
    if at is not None and at < base.timestamp:
        return False
    if not all(node in logs and _fits_log(position, logs[node]) for node, position in base.positions.items()):
        return False
    return all(_is_younger(base, log) for node, log in logs.items() if node not in base.positions)


def _is_younger(base: Base, log: LogRead) -> bool:
    """Whether a log that the base does not know has no row that a delete could hide which the base left out."""
    limit = max((position.horizon for position in base.positions.values()), default=0)
    return all(info.footer.min_timestamp >= limit for info in log.infos)


def _fits_log(position: BasePosition, log: LogRead) -> bool:
    """Whether the log that was read still is the one of the position, and lets the base stand for its beginning.

    An object after the position with a later horizon may lack a delete that shadows a row of the base: then the base is over.
    """
    last = position.sequence
    if not last:
        return True
    if log.up_to is not None and log.up_to < last:
        return False
    counts = any(
        info.span.first <= last <= info.span.last and info.footer.log_id == position.log_id for info in log.infos
    )
    # An entry after the position is younger than its timestamp. So a horizon up to there has dropped none, and one above it
    # may have, also if a compaction had used a later horizon before the base was made.
    limit = min(position.horizon, position.timestamp)
    return counts and all(info.span.horizon <= limit for info in log.infos if info.span.last > last)
