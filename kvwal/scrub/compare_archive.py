"""The comparison of a log with its archive: the owner of the place, gaps in the sequences, and forks of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import ArchiveDamaged, ArchiveError
from kvwal.log.files.names import log_folder
from kvwal.log.reader import Progress
from kvwal.ports.disk import Disk
from kvwal.scrub.event_files import event_faults
from kvwal.scrub.inspect import Inspection, examine, snapshot_of
from kvwal.scrub.progress import NotesInMemory
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.rows import ObjectInfo
from kvwal_archive.reader import Coverage, covered, live_objects
from kvwal_archive.registry import Registration, owner
from kvwal_archive.verify import Notes

Range = tuple[int, int]
BEHIND = "behind"
"""State of a range that the archive has and the log ends before."""
FORKED = "forked"
"""State of a log that has other entries than the archive under the same sequences."""
_LOOKS = 5


class Verified(NamedTuple):
    """The result of `verify_log`: the files of a log with their problems, then the missing ranges.

    `silent` is the error of an archive that did not answer, else None.
    """

    files: list[Inspection]
    silent: ArchiveError | None

    @property
    def needs_repair(self) -> bool:
        """Whether the log cannot be used as it is. A range that only the archive misses needs no repair of the log."""
        return any((file.name and file.problem) or file.state in (BEHIND, FORKED) for file in self.files)


def verify_log(
    disk: Disk,
    root: Path,
    place: Place,
    objects: Objects | None,
    progress: Progress | None = None,
    notes: Notes | None = None,
) -> Verified:
    """Read a log's files and compare them with its archive.

    The log may be in use meanwhile: if a range seems to be missing and the files have changed, they are read again.
    """
    notes = notes or NotesInMemory()
    folder = log_folder(root, place)
    for _ in range(_LOOKS):
        names = disk.names(folder)
        files = examine(disk, root, place, progress, notes)
        differences, silent = _compared(objects, place, files)
        if not differences or disk.names(folder) == names:
            break
    faults = [
        _between(
            fault.file.first,
            fault.file.last,
            "set aside" if fault.is_aside else "damaged",
            f"{fault.name}: {fault.text}",
        )
        for fault in event_faults(disk, folder, whole=True)
    ]
    return Verified([*files, *differences, *faults], silent)


def _compared(
    objects: Objects | None, place: Place, files: Sequence[Inspection]
) -> tuple[list[Inspection], ArchiveError | None]:
    try:
        return list(compare(objects, place, files)) if objects is not None else [], None
    except ArchiveDamaged as error:
        return [_between(0, 0, "damaged", f"the archive: {error.what}")], None
    except ArchiveError as error:
        return [], error


def compare(objects: Objects, place: Place, files: Sequence[Inspection]) -> Iterator[Inspection]:
    """The differences between a log's files, as `examine` returns them, and the archive; none if the log was never archived.

    Raises `ArchiveError` if the archive does not answer, `ArchiveDamaged` if an object is not what was put.
    """
    registration = owner(objects, place)
    log_id = next((file.log_id for file in reversed(files) if file.log_id), "")
    if registration is None or not log_id:
        return
    if stranger := why_foreign(registration, log_id):
        yield _between(0, 0, "foreign", stranger)
        return
    infos = live_objects(objects, place)
    yield from gaps(covered(infos), files)
    yield from forks(seals_of(infos, log_id), files)


def why_foreign(registration: Registration, log_id: str) -> str:
    """The reason why this log may not write into the archive, or "". Pure."""
    if registration.log_id == log_id:
        return ""
    if registration.range_of(log_id):
        return (
            f"another log took over in the archive, from sequence {registration.from_sequence} on: this one is fenced."
        )
    return "the archive has another log under this name."


def gaps(covered: Coverage, files: Sequence[Inspection]) -> Iterator[Inspection]:
    """The ranges that are in no segment and in no object, and the range that the archive has after the log's end. Pure."""
    in_log = [(file.first, file.last) for file in files if not file.is_snapshot and file.log_id]
    newest = snapshot_of(files)
    snapshot_end = newest.last if newest is not None else 0
    in_archive = [(span.first, span.last) for span in covered.spans]
    log_end = max((last for _, last in in_log), default=0)
    last = max((last for _, last in (*in_log, *in_archive)), default=0)
    for first, end in missing((*in_log, *in_archive), max(last, snapshot_end)):
        if end <= snapshot_end:
            text = "no segment and no object holds them: the snapshot has the latest values, their history is lost."
        else:
            text = "no segment and no object of the archive holds them."
        yield _between(first, end, "missing", text)
    if covered.spans and max(log_end, snapshot_end) < max(end for _, end in in_archive):
        text = "the archive has them, and the log ends before: its end is missing, or this is an older copy of it."
        yield _between(max(log_end, snapshot_end) + 1, max(end for _, end in in_archive), BEHIND, text)


def seals_of(infos: Iterable[ObjectInfo], log_id: str) -> dict[int, int]:
    """The crc of each seal of the log in the footers of these objects, by the last sequence before the seal. Pure."""
    own = [info.footer for info in infos if info.footer.log_id == log_id]
    ends = {footer.last: footer.seal_crcs[-1] for footer in own if footer.seal_crcs}
    return {footer.first - 1: footer.previous_crc for footer in own if footer.first > 1} | ends


def forks(seals: Mapping[int, int], files: Sequence[Inspection]) -> Iterator[Inspection]:
    """The first of these seals that the log does not have, or has with another crc: log and archive part there. Pure."""
    log_seals = _seals_in_log(files)
    segments = [file for file in files if file.log_id and not file.problem and not file.is_snapshot]
    for position in sorted(seals):
        runs_over = any(file.first <= position < file.last for file in segments)
        if runs_over or log_seals.get(position, seals[position]) != seals[position]:
            text = (
                f"the archive has other entries than the log up to sequence {position}: this is a copy of the log that went on,"
                " or a copy of it did and archives there too."
            )
            yield _between(position, position, FORKED, text)
            return


def common(seals: Mapping[int, int], files: Sequence[Inspection]) -> int:
    """The last sequence up to which log and archive are known to be equal; 0 if there is none. Pure."""
    log_seals = _seals_in_log(files)
    return max((position for position, crc in seals.items() if log_seals.get(position) == crc), default=0)


def _seals_in_log(files: Sequence[Inspection]) -> dict[int, int]:
    seals: dict[int, int] = {}
    for file in files:
        if file.log_id and not file.problem:
            if file.first > 1:
                seals[file.first - 1] = file.previous_crc
            if file.is_snapshot or file.state == "sealed":
                seals[file.last] = file.seal_crc
    return seals


def missing(ranges: Iterable[Range], last: int) -> Iterator[Range]:
    """The parts of 1 to `last` that no range holds. Pure."""
    reached = 0
    for first, end in sorted(ranges):
        if first > reached + 1:
            yield reached + 1, first - 1
        reached = max(reached, end)
    if reached < last:
        yield reached + 1, last


def _between(first: int, last: int, state: str, problem: str) -> Inspection:
    return Inspection("", first, last, 0, 0, state, problem)
