"""The inspection of a log's files: the range of each, whether it verifies, and whether it follows the file before it.

Nothing is changed. The log may be in use meanwhile: files appear, vanish and grow. If a file seems damaged and the folder has
changed, the files are read again. Segments are read one at a time; a snapshot, which may be large, is mapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kvwal.entry import Entry
from kvwal.errors import KvwalError
from kvwal.log.files.chain import (
    BROKEN,
    SnapshotPart,
    missing_part_problem,
    part_problem,
    placement_problem,
    snapshot_parts,
)
from kvwal.log.files.names import FileKind, LogFile, log_folder, parse_name
from kvwal.log.overflow.read import open_segment
from kvwal.log.reader import Progress, SegmentEnd, SegmentReader, SnapshotReader, entry_decoder, log_files
from kvwal.ports.disk import Buffer, Disk
from kvwal.scrub.progress import NotesInMemory
from kvwal_archive.layout import Place
from kvwal_archive.verify import Notes

_LOOKS = 5


class Inspection(NamedTuple):
    """One segment or snapshot: its range of sequences, its state, and its problem, a sentence or "".

    `state` is `sealed`, `open`, `torn`, `damaged` or `unreadable`; `missing` for a range that is in no file. Of a part of a
    snapshot `seal_crc` is that of the log's seal with which it ends. `newest` is the timestamp of the last entry. `glanced`: only
    header and seal were read, so `newest` of a segment is 0.
    """

    name: str
    first: int
    last: int
    entries: int
    bytes: int
    state: str
    problem: str
    previous_crc: int = 0
    seal_crc: int = 0
    log_id: str = ""
    created_ms: int = 0
    newest: int = 0
    glanced: bool = False

    @property
    def is_snapshot(self) -> bool:
        """Whether the file is a snapshot, by its name."""
        return parse_name(self.name).kind is FileKind.SNAPSHOT


def examine(
    disk: Disk,
    root: Path,
    place: Place,
    progress: Progress | None = None,
    notes: Notes | None = None,
    glance_above: int | None = None,
) -> list[Inspection]:
    """Every snapshot and segment of a log, in order, each read whole.

    Files that `notes` know are not read again, and sound files are added to `notes`. Of files of more than `glance_above` bytes
    only header and seal are read, except of the last segment that has entries.
    """
    folder = log_folder(root, place)
    inspector = _Inspector(disk, folder, place, progress, notes or NotesInMemory(), glance_above)
    for _ in range(_LOOKS - 1):
        names = disk.names(folder)
        files = inspector.inspect()
        if not any(file.problem for file in files) or disk.names(folder) == names:
            return files
    return inspector.inspect()


class _Inspector:
    """The inspection of one log."""

    def __init__(
        self, disk: Disk, folder: Path, place: Place, progress: Progress | None, notes: Notes, glance_above: int | None
    ) -> None:
        self._glance_above = glance_above
        self._disk = disk
        self._folder = folder
        self._place = place
        self._progress = progress
        self._notes = notes
        self._decode = entry_decoder()
        self._done = self._total = 0

    def inspect(self) -> list[Inspection]:
        """The files as they are now."""
        segments, snapshots = log_files(self._disk, self._folder)
        sizes = {file.name: self._size(file) for file in (*snapshots, *segments)}
        self._done, self._total = 0, sum(sizes.values())
        inspections = []
        for file in (*snapshots, *segments):
            glance = (
                self._glance_above is not None and sizes[file.name] > self._glance_above and file not in segments[-2:]
            )
            inspection = self._glance(file) if glance else self._file(file, last=file in segments[-1:])
            inspections += [inspection] if inspection is not None else []
            self._done += sizes[file.name]
            self._report(0)
        if (
            len(segments) > 1 and inspections[-2].glanced and not inspections[-1].newest
        ):  # a snapshot says it in its header
            inspections[-2] = self._file(segments[-2], last=False) or inspections[-2]
        return list(check_chain(inspections, self._place))

    def _size(self, file: LogFile) -> int:
        try:
            return self._disk.size(self._folder / file.name)
        except FileNotFoundError:
            return 0

    def _file(self, file: LogFile, *, last: bool) -> Inspection | None:
        """The inspection of a file; None if the file has vanished.

        A segment that is being written is read again if it seems damaged: the reader may have overtaken the writer.
        """
        try:
            inspection = self._read(file, last=last)
            if last and inspection.problem:
                inspection = self._read(file, last=last)
        except FileNotFoundError:
            return None
        except OSError as error:
            return Inspection(file.name, _begins(file), 0, 0, 0, "unreadable", f"it cannot be read: {error.strerror}.")
        return inspection

    def _read(self, file: LogFile, *, last: bool) -> Inspection:
        path = self._folder / file.name
        with self._open(path, file.kind) as buffer:
            try:
                reader = _reader(self._disk, path, buffer, file.kind)
                name, mark = f"{'/'.join(self._place)}/{file.name}", f"{len(buffer)} {reader.header.salt}"
                if (record := self._notes.known(name, mark)) is not None:
                    return Inspection(*record)
                newest = 0
                for entries in reader.entries(self._decode):
                    newest = max(newest, entries[-1].timestamp if entries else 0)
                    self._report(reader.end)
                inspection = _described(reader, buffer, newest, last=last)
            except KvwalError as error:
                return Inspection(file.name, _begins(file), 0, 0, len(buffer), "damaged", error.what)
        inspection = inspection._replace(
            problem=inspection.problem or placement_problem(reader.header, self._place) or ""
        )
        if inspection.state == "sealed" and not inspection.problem:
            self._notes.add(name, mark, list(inspection))
        return inspection

    def _glance(self, file: LogFile) -> Inspection | None:
        """The inspection of a finished file, by its header and its seal; None if the file has vanished."""
        path = self._folder / file.name
        try:
            with self._disk.view(path) as buffer:
                reader = _reader(self._disk, path, buffer, file.kind)
                if reader.skip_to_seal(buffer):
                    inspection = _described(reader, buffer, 0, last=False)._replace(glanced=True)
                else:
                    first, size = reader.header.first_sequence, len(buffer)
                    inspection = Inspection(file.name, first, 0, 0, size, "damaged", "it does not end with its seal.")
        except FileNotFoundError:
            return None
        except (KvwalError, OSError) as error:
            what = error.what if isinstance(error, KvwalError) else f"it cannot be read: {error.strerror}."
            return Inspection(file.name, _begins(file), 0, 0, 0, "damaged", what)
        return inspection._replace(problem=inspection.problem or placement_problem(reader.header, self._place) or "")

    def _open(self, path: Path, kind: FileKind) -> AbstractContextManager[Buffer]:
        """The bytes of a file. A segment is read, because its writer may cut it short; a snapshot never changes and is mapped."""
        if kind is FileKind.SEGMENT:
            return nullcontext(self._disk.read(path))
        self._disk.try_read(path)
        return self._disk.view(path)

    def _report(self, done: int) -> None:
        if self._progress is not None:
            self._progress(self._done + done, self._total, f"verifying {self._place.business}/{self._place.node}")


def _reader(disk: Disk, path: Path, buffer: Buffer, kind: FileKind) -> SegmentReader:
    return SnapshotReader(path, buffer) if kind is FileKind.SNAPSHOT else open_segment(disk, path, buffer)


def _begins(file: LogFile) -> int:
    """The first sequence of a file, by its name."""
    return file.first if file.kind is FileKind.SNAPSHOT else file.number


def _described(reader: SegmentReader, buffer: Buffer, newest: int, *, last: bool) -> Inspection:
    """The inspection of a file that was read to its end."""
    ending = reader.ending(buffer, last=last)
    problem = reader.damage().what if ending is SegmentEnd.DAMAGED else ""
    header = reader.header
    size = len(buffer) + sum(reference.bytes for reference in reader.overflows)
    if isinstance(reader, SnapshotReader):
        final, crc, newest = reader.header.last_sequence, reader.header.last_crc, reader.header.last_timestamp
    else:
        final, crc = reader.next_sequence - 1, reader.seal_crc
    return Inspection(
        reader.path.name, header.first_sequence, final, reader.count, size, ending.value, problem,
        header.previous_crc, crc, header.log_id, header.created_ms, newest,
    )  # fmt: skip


def check_chain(files: list[Inspection], place: Place) -> Iterator[Inspection]:
    """The files (snapshots, then segments), each with a problem if it does not follow the file before it. Pure."""
    snapshots = list(_check_parts([file for file in files if file.is_snapshot]))
    yield from snapshots
    snapshot = snapshot_of(snapshots)
    segments = [file for file in files if not file.is_snapshot]
    log_id = snapshot.log_id if snapshot else next((file.log_id for file in segments if file.log_id), "")
    before: Inspection | None = None
    for segment in segments:
        problem = segment.problem
        if segment.log_id and not problem:
            stranger = "it is of another log than the files beside it." if segment.log_id != log_id else ""
            problem = stranger or _follows(segment, before, snapshot)
        yield segment._replace(problem=problem)
        before = segment


def snapshot_of(files: Sequence[Inspection]) -> Inspection | None:
    """The newest part of the newest snapshot of which all parts are sound, None if there is none. Pure."""
    sound = {file.name: file for file in files if file.is_snapshot and not file.problem}
    while parts := snapshot_parts(map(parse_name, sound)):
        if missing_part_problem(parts) is None:
            return sound[parts[0].name]
        del sound[parts[0].name]
    return None


def _check_parts(files: list[Inspection]) -> Iterator[Inspection]:
    """The snapshots, each with a problem if its name is not its own, or if it does not follow the part below it. Pure."""
    parts = snapshot_parts(parse_name(file.name) for file in files)
    sound = {file.name: SnapshotPart(file.log_id, file.first, file.last, file.previous_crc, file.seal_crc)
             for file in files if not file.problem}  # fmt: skip
    below = {part.name: sound.get(lower.name) for part, lower in pairwise(parts)}
    for file in files:
        problem = file.problem
        if file.name in sound:
            problem = part_problem(sound[file.name], parse_name(file.name), below.get(file.name)) or ""
        if not problem and parts and file.name == parts[-1].name:
            problem = missing_part_problem(parts) or ""
        yield file._replace(problem=problem)


def _follows(segment: Inspection, before: Inspection | None, snapshot: Inspection | None) -> str:
    """The problem between a sound segment and the files before it, or ""."""
    covered = snapshot.last if snapshot else 0
    if before is None and segment.first > covered + 1:
        return f"sequences {covered + 1} to {segment.first - 1} are in no segment and in no snapshot."
    if before is not None and before.state == "sealed" and segment.first != before.last + 1:
        return f"sequences {before.last + 1} to {segment.first - 1} are in no segment."
    expected = before.seal_crc if before is not None and before.state == "sealed" else None
    if expected is None and snapshot is not None and segment.first == covered + 1:
        expected = snapshot.seal_crc
    if expected is not None and segment.previous_crc != expected:
        return BROKEN
    if (
        snapshot is not None
        and segment.state == "sealed"
        and segment.last == covered
        and segment.seal_crc != snapshot.seal_crc
    ):
        return "the chain of seals is broken: the snapshot that ends with it was made of another segment."
    return ""


def dump(disk: Disk, root: Path, place: Place) -> Iterator[tuple[str, int, Entry]]:
    """(file, sequence, entry) of every entry in the segments of a log, in order. Raises CorruptLog for a damaged file."""
    folder = log_folder(root, place)
    segments, _ = log_files(disk, folder)
    for file in segments:
        buffer = disk.read(folder / file.name)
        reader = open_segment(disk, folder / file.name, buffer)
        for first, entries in reader.numbered(entry_decoder()):
            for sequence, entry in enumerate(entries, first):
                yield file.name, sequence, entry
        reader.check_ending(buffer, last=file is segments[-1])
