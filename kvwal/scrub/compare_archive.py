"""A log and its archive, side by side: whose it is, and whether every sequence is somewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from archive.layout import Place
from archive.objects import Objects
from archive.reader import Coverage, ObjectInfo, covered, live_objects
from archive.registry import Registration, owner
from kvwal.errors import ArchiveDamaged, ArchiveError
from kvwal.log.files.names import log_folder
from kvwal.log.reader import Progress
from kvwal.ports.disk import Disk
from kvwal.scrub.inspect import Inspection, examine, snapshot_of
from kvwal.scrub.progress import Notes, NotesInMemory

Range = tuple[int, int]
BEHIND = "behind"
"""State of a range that the archive has and the log ends before."""
FORKED = "forked"
"""State of a log that has other entries than the archive under the same sequences."""
_LOOKS = 5


class Verified(NamedTuple):
    """The files of a log with their problems, and behind them what is missing; `silent` is why the archive did not answer."""

    files: list[Inspection]
    silent: ArchiveError | None

    @property
    def needs_repair(self) -> bool:
        """Whether the log cannot be used as it is. What only the archive misses is not mended here."""
        return any((file.name and file.problem) or file.state in (BEHIND, FORKED) for file in self.files)


def verify_log(
    disk: Disk,
    root: Path,
    place: Place,
    objects: Objects | None,
    progress: Progress | None = None,
    notes: Notes | None = None,
) -> Verified:
    """Read a log's files and compare them with its archive. In use meanwhile, a log is looked at again as long as its files
    change under what seems missing.
    """
    notes = notes or NotesInMemory()
    folder = log_folder(root, place)
    for _ in range(_LOOKS):
        names = disk.names(folder)
        files = examine(disk, root, place, progress, notes)
        found, silent = _compared(objects, place, files)
        if not found or disk.names(folder) == names:
            break
    return Verified([*files, *found], silent)


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
    """What is wrong between the files of a log, as `examine` found them, and the archive; of a log that never was archived
    nothing. Raises `ArchiveError` if the archive does not answer, `ArchiveDamaged` if it is not what was put.
    """
    registration = owner(objects, place)
    log_id = next((file.log_id for file in reversed(files) if file.log_id), "")
    if registration is None or not log_id:
        return
    if stranger := whose(registration, log_id):
        yield _between(0, 0, "foreign", stranger)
        return
    infos = live_objects(objects, place)
    yield from gaps(covered(infos), files)
    yield from forks(seals_of(infos, log_id), files)


def whose(registration: Registration, log_id: str) -> str:
    """Why this log may not write into the archive, or "". Pure."""
    if registration.log_id == log_id:
        return ""
    if registration.range_of(log_id):
        return (
            f"another log took over in the archive, from sequence {registration.from_sequence} on: this one is fenced."
        )
    return "the archive has another log under this name."


def gaps(covered: Coverage, files: Sequence[Inspection]) -> Iterator[Inspection]:
    """The ranges that are in no segment and in no object, and an archive that knows more than the log. Pure."""
    here = [(file.first, file.last) for file in files if not file.is_snapshot and file.log_id]
    whole = snapshot_of(files)
    snapshot = whole.last if whole is not None else 0
    there = [(span.first, span.last) for span in covered.spans]
    ends = max((last for _, last in here), default=0)
    last = max((last for _, last in (*here, *there)), default=0)
    for first, end in missing((*here, *there), max(last, snapshot)):
        if end <= snapshot:
            text = "no segment and no object holds them: the snapshot has the latest values, their history is lost."
        else:
            text = "no segment and no object of the archive holds them."
        yield _between(first, end, "missing", text)
    if covered.spans and max(ends, snapshot) < max(end for _, end in there):
        text = "the archive has them, and the log ends before: its end is missing, or this is an older copy of it."
        yield _between(max(ends, snapshot) + 1, max(end for _, end in there), BEHIND, text)


def seals_of(infos: Iterable[ObjectInfo], log_id: str) -> dict[int, int]:
    """The crc of each seal of this log that the footers of these objects name, by the last sequence in front of it. Pure."""
    own = [info.footer for info in infos if info.footer.log_id == log_id]
    ends = {footer.last: footer.seal_crcs[-1] for footer in own if footer.seal_crcs}
    return {footer.first - 1: footer.previous_crc for footer in own if footer.first > 1} | ends


def forks(seals: Mapping[int, int], files: Sequence[Inspection]) -> Iterator[Inspection]:
    """Where the log and the archive part, if they do: the first of these seals that the log has otherwise, or not. Pure."""
    here = _seals_here(files)
    segments = [file for file in files if file.log_id and not file.problem and not file.is_snapshot]
    for position in sorted(seals):
        runs_over = any(file.first <= position < file.last for file in segments)
        if runs_over or here.get(position, seals[position]) != seals[position]:
            text = (
                f"the archive has other entries than the log up to sequence {position}: this is a copy of the log that went on,"
                " or a copy of it did and archives there too."
            )
            yield _between(position, position, FORKED, text)
            return


def common(seals: Mapping[int, int], files: Sequence[Inspection]) -> int:
    """The last sequence up to which the log is known to be the archived one: behind it they may have parted. 0: none is. Pure."""
    here = _seals_here(files)
    return max((position for position, crc in seals.items() if here.get(position) == crc), default=0)


def _seals_here(files: Sequence[Inspection]) -> dict[int, int]:
    here: dict[int, int] = {}
    for file in files:
        if file.log_id and not file.problem:
            if file.first > 1:
                here[file.first - 1] = file.previous_crc
            if file.is_snapshot or file.state == "sealed":
                here[file.last] = file.seal_crc
    return here


def missing(ranges: Iterable[Range], last: int) -> Iterator[Range]:
    """What of 1 to `last` none of the ranges holds. Pure."""
    reached = 0
    for first, end in sorted(ranges):
        if first > reached + 1:
            yield reached + 1, first - 1
        reached = max(reached, end)
    if reached < last:
        yield reached + 1, last


def _between(first: int, last: int, state: str, problem: str) -> Inspection:
    return Inspection("", first, last, 0, 0, state, problem)
