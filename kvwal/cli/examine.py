"""Looking at a log's files without changing them: what each holds, whether it verifies, and whether they follow each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from archive.layout import Place
from kvwal.entry import Entry
from kvwal.errors import KvwalError
from kvwal.log.names import FileKind, log_folder, parse_name
from kvwal.log.reader import End, Progress, SegmentReader, SnapshotReader, entry_decoder, log_files
from kvwal.ports.disk import Disk


class Found(NamedTuple):
    """A segment or snapshot: its range, what stands at its end (`sealed`, `open`, `torn`, `damaged`), and what is wrong."""

    path: Path
    first: int
    last: int
    entries: int
    bytes: int
    state: str
    problem: str
    previous_crc: int = 0
    seal_crc: int = 0


def examine(disk: Disk, root: Path, place: Place, progress: Progress | None = None) -> list[Found]:
    """Every snapshot and segment of a log, in order, each read whole. A problem is a sentence in `problem`."""
    folder = log_folder(root, place)
    segments, snapshots = log_files(disk, folder)
    paths = [folder / file.name for file in (*snapshots, *segments)]
    total = sum(disk.size(path) for path in paths)
    found: list[Found] = []
    done = 0
    for number, path in enumerate(paths):
        last = number == len(paths) - 1
        found.append(_examine_file(disk, path, snapshot=number < len(snapshots), last=last))
        done += disk.size(path)
        if progress is not None:
            progress(done, total, f"verifying {place.business}")
    return [*found[: len(snapshots)], *_check_chain(found[len(snapshots) :])]


def _examine_file(disk: Disk, path: Path, *, snapshot: bool, last: bool) -> Found:
    buffer = disk.read(path)  # not mapped: its writer may cut the file short meanwhile
    try:
        reader = SnapshotReader(path, buffer) if snapshot else SegmentReader(path, buffer)
        for _ in reader.entries(entry_decoder()):
            pass
        state, problem = _ending(reader, last=last and not snapshot)
    except KvwalError as error:
        return Found(path, parse_name(path.name).number, 0, 0, len(buffer), "damaged", error.what)
    final = reader.next_sequence - 1 if not isinstance(reader, SnapshotReader) else reader.header.last_sequence
    return Found(
        path, reader.header.first_sequence, final, reader.count, len(buffer), state, problem,
        reader.header.previous_crc, reader.seal_crc,
    )  # fmt: skip


def _ending(reader: SegmentReader, *, last: bool) -> tuple[str, str]:
    ending = reader.ending()
    if ending is End.SEALED:
        return "sealed", ""
    if ending is End.TORN and last:
        return ("torn", "") if reader.torn_bytes() else ("open", "")
    return "damaged", str(reader.damage().what)


def _check_chain(segments: list[Found]) -> Iterator[Found]:
    """The segments, each with the problem that it does not follow the one before it."""
    before: Found | None = None
    for segment in segments:
        problem = segment.problem
        if before is not None and not problem and before.state == "sealed":
            if segment.first != before.last + 1:
                problem = f"sequences {before.last + 1} to {segment.first - 1} are in no segment."
            elif segment.previous_crc != before.seal_crc:
                problem = "the chain of seals is broken: this segment does not follow the one before it."
        yield segment._replace(problem=problem)
        before = segment


def dump(disk: Disk, root: Path, place: Place) -> Iterator[tuple[str, int, Entry]]:
    """(file, sequence, entry) of every entry in the segments of a log, in order; a file that is damaged raises CorruptLog."""
    folder = log_folder(root, place)
    segments, _ = log_files(disk, folder)
    for number, file in enumerate(segments):
        buffer = disk.read(folder / file.name)
        reader = SegmentReader(folder / file.name, buffer)
        for entries in reader.entries(entry_decoder()):
            first = reader.next_sequence - len(entries)
            for offset, entry in enumerate(entries):
                yield file.name, first + offset, entry
        ending = reader.ending()
        if ending is End.DAMAGED or (ending is End.TORN and number < len(segments) - 1):
            raise reader.damage()


def leftovers(disk: Disk, root: Path, place: Place) -> list[Path]:
    """Files that a crash left in a log's folder: unfinished ones, and the evidence of tails that were cut."""
    folder = log_folder(root, place)
    kinds = {FileKind.PARTIAL, FileKind.TORN}
    return [folder / name for name in disk.names(folder) if parse_name(name).kind in kinds]
