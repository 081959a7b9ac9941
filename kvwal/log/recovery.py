"""Crash recovery: the states that a crash can leave a log in, and the action for each. No file with an entry is ever deleted.

States of the last segment (only the last may lack a seal):

 1. clean        It ends with its seal: the log was closed, or killed while it made the seal durable. The seal is written again.
 2. only_header  Nothing after the header: the log was opened and not written to. The next segment replaces the file.
 3. unsealed     Valid blocks, then zeros or stale bytes of a recycled file: the process was killed. Sealed by copying.
 4. torn_block   An invalid block, and no later block that says it was durable: power was lost in the middle of a group that was
                 not acknowledged. The segment is cut there; the file as it was stays as `.torn`, and is reported.
 5. torn_group   As torn_block, with valid later blocks of the same group, or, under `interval` and `os`, of groups that were not
                 synced. The segment is cut at the first invalid block.
 6. torn_seal    All blocks are valid and the seal is not: the process was killed while it closed the log. Sealed again.
 7. damaged      An invalid block, and a later one that says it was durable: `CorruptLog`. Nothing is changed.

States of other files:

 8. partial      `*.partial`: an unfinished segment or snapshot, a preallocated segment, or the folder of a job of the
                 archiver. Deleted: no other file needs it. One that an archiver still writes, which outlived its killed
                 parent, stays until that archiver has ended.
 9. missing      A segment that the chain of seals needs is not there, or another one has its name: `CorruptLog`.
10. damaged_middle   A segment that is not the last has no seal or an invalid block: `CorruptLog`.
11. damaged_snapshot A part of the newest snapshot is not valid. The parts below it, or an older snapshot, are used if the
                 segments reach back to them, else `CorruptLog`. The damaged part and the parts above it stay as `.torn`, so that
                 no checkpoint builds on them, and are reported.
12. bad_header   The header of a segment is not valid: `CorruptLog`, because a segment gets its name after its header is durable.
13. newer        A file has a format that this version does not know: `NewerVersion`.
14. superseded   There are parts of a snapshot beside a wider part: a checkpoint was killed before it removed the parts that it
                 had merged. The wider part counts, and the next checkpoint removes the others.
15. missing_part A part below another part of the snapshot is not there: as damaged_snapshot.
16. leftover     A file in `overflow/` that no block names: the process was killed before it wrote the block, or after it dropped
                 the segment. Deleted.
17. no_overflow  An overflow file that a block names is missing or damaged: `CorruptLog`. It was durable before the block.

An unsealed segment is not sealed in place, because after a failed fsync the page cache may have newer data than the disk. Its
valid blocks are copied into a new file, which is made durable and renamed over it.

All files are read before one is changed: a log that is damaged, newer, or refused by its caller stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kvwal.entry import Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.key_class import CONTENT_RANGES
from kvwal.log.files.atomic_file import delete_abandoned, write_file
from kvwal.log.files.chain import (
    SnapshotPart,
    gap_problem,
    link_problem,
    missing_part_problem,
    part_problem,
    snapshot_part,
    snapshot_parts,
)
from kvwal.log.files.format import Header, Seal, align, pack_seal
from kvwal.log.files.names import LogFile, overflow_name, torn_name
from kvwal.log.files.segment import SEAL_ROOM, SealedSegment
from kvwal.log.overflow.files import collect, overflow_sizes
from kvwal.log.overflow.read import open_segment
from kvwal.log.ranges.passed_blocks import PassingReader
from kvwal.log.reader import Progress, SegmentEnd, SegmentReader, log_files, read_header, streamed
from kvwal.ports.disk import Buffer, Disk

_ORPHANS = 5
"""How many archivers of killed parents may still be running."""


class Torn(NamedTuple):
    """A tail that recovery cut: its file and offset, its bytes up to the last nonzero one, and the file that keeps it."""

    path: Path
    offset: int
    bytes: int
    evidence: Path


class Recovered(NamedTuple):
    """Result of recovery. `header` is that of the log's last file, None for a new log; `sealed` are its segments, oldest first.

    `snapshot` is the newest part of the snapshot that was read, `snapshot_bytes` the size of all its parts. `torn` is the tail
    that was cut. `set_aside` are the new names of damaged parts of snapshots, and of the parts above them.
    """

    header: Header | None
    epoch: int
    next_sequence: int
    previous_crc: int
    last_timestamp: int
    snapshot: LogFile | None
    snapshot_bytes: int
    sealed: list[SealedSegment]
    torn: Torn | None
    set_aside: list[Path]


Check = Callable[[Header, int], None]
"""Refuses a log by raising an error: given the header of its last file, and its last timestamp."""


def _accept(header: Header, last_timestamp: int) -> None:
    """Any log may be opened."""


class RecoveryTarget(NamedTuple):
    """The receiver of recovered entries, in log order. `clear` drops all of them: a snapshot was damaged half-way.

    `passed` is told that names of contents were passed: entries of contents then come only in part. Without it all come.
    """

    apply: Callable[[list[Entry]], None]
    clear: Callable[[], None]
    passed: Callable[[], None] | None = None


def recover(
    disk: Disk,
    folder: Path,
    target: RecoveryTarget,
    decode: Decode,
    progress: Progress | None = None,
    check: Check = _accept,
) -> Recovered:
    """Read the log in `folder` into `target` and repair its end, so that a new segment can follow. The caller holds its lock.

    Nothing is changed before all of it was read and `check` has accepted it. A new log is not checked.

    An archiver that outlived its killed parent may finish its checkpoint meanwhile: a listed snapshot is gone then, and a newer
    one is there. Recovery starts again in that case. Each such archiver finishes at most one checkpoint.
    """
    for _ in range(_ORPHANS):
        try:
            return _Recovery(disk, folder, target, decode, progress).run(check)
        except FileNotFoundError:
            target.clear()
    return _Recovery(disk, folder, target, decode, progress).run(check)


class _Recovery:
    """One pass of recovery. Its fields hold the state of the log as far as it was read. `_repairs` are the changes of its end."""

    def __init__(
        self, disk: Disk, folder: Path, target: RecoveryTarget, decode: Decode, progress: Progress | None
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._target = target
        self._decode = decode
        self._progress = progress
        self._segments, self._snapshots = log_files(disk, folder)
        self._total = sum(disk.size(folder / file.name) for file in (*self._segments, *snapshot_parts(self._snapshots)))
        self._done = 0
        self._sealed: list[SealedSegment] = []
        self._torn: Torn | None = None
        self._damaged: list[LogFile] = []
        self._header: Header | None = None
        self._epoch = 0
        self._next = self._first_read = 1
        self._crc = 0
        self._timestamp = 0
        self._snapshot_bytes = 0
        self._overflow_sizes = overflow_sizes(disk, folder)
        self._overflows: set[str] = set()
        self._views = ExitStack()
        self._repairs: list[Callable[[], None]] = []

    def run(self, check: Check) -> Recovered:
        with self._views:
            snapshot = self._read()
            if self._header is not None:
                check(self._header, self._timestamp)
            delete_abandoned(self._disk, self._folder)
            for repair in self._repairs:
                repair()
            self._collect_overflow()
        return Recovered(
            self._header, self._epoch + 1, self._next, self._crc, self._timestamp,
            snapshot, self._snapshot_bytes if snapshot else 0, self._sealed, self._torn,
            [self._set_aside(file) for file in self._damaged],
        )  # fmt: skip

    def _collect_overflow(self) -> None:
        """Delete the overflow files that no block names. Those of segments that a snapshot covers were not read, and stay."""
        covered = [
            range(segment.first, segment.last + 1) for segment in self._sealed if segment.last < self._first_read
        ]
        collect(
            self._disk,
            self._folder,
            lambda number: overflow_name(number) in self._overflows or any(number in part for part in covered),
        )

    def _read(self) -> LogFile | None:
        """Read all files. Returns the newest part of the snapshot, None if there is no snapshot."""
        snapshot = self._read_snapshots()
        first_needed = self._first_read = self._next
        self._check_start(first_needed)
        for index, file in enumerate(self._segments):
            last = index == len(self._segments) - 1
            if file.number >= first_needed:
                self._read_segment(file, last=last)
            else:
                self._record_covered(file, self._segments[index + 1] if not last else None, first_needed)
        return snapshot

    def _read_snapshots(self) -> LogFile | None:
        """Read the newest valid snapshot. An older one is used only if the segments after it are still there."""
        failure: CorruptLog | None = None
        left = list(self._snapshots)
        while parts := snapshot_parts(left):
            if failure is not None and not self._reaches(parts[0].number):
                break
            reading = parts[0]
            try:
                self._check_parts(parts)
                below: SnapshotPart | None = None
                for reading in reversed(parts):
                    below = self._read_part(reading, below)
            except CorruptLog as error:
                failure = failure or error
                left.remove(reading)
                self._damaged.append(reading)
                self._reset()
            else:
                return parts[0]
        if failure is not None and not (self._segments and self._segments[0].number == 1):
            raise failure
        self._damaged += left  # these are older, or above a damaged part: the segments hold all of their entries
        return None

    def _check_parts(self, parts: list[LogFile]) -> None:
        if (problem := missing_part_problem(parts)) is not None:
            raise CorruptLog(problem, path=self._folder / parts[-1].name, offset=0, sequence=parts[-1].first - 1)

    def _reset(self) -> None:
        """Drop the entries and the state read from a snapshot that cannot be used."""
        self._target.clear()
        self._header = None
        self._next = 1
        self._epoch = self._crc = self._timestamp = self._snapshot_bytes = self._done = 0

    def _set_aside(self, file: LogFile) -> Path:
        """Rename an unreadable snapshot, so that no checkpoint builds on it. The next segment's sync makes the name durable."""
        kept = self._folder / torn_name(file.name, self._epoch)
        self._disk.rename(self._folder / file.name, kept)
        return kept

    def _reaches(self, sequence: int) -> bool:
        return any(file.number == sequence + 1 for file in self._segments)

    def _read_part(self, file: LogFile, below: SnapshotPart | None) -> SnapshotPart:
        path = self._folder / file.name
        with self._disk.view(path) as buffer:
            passed = self._target.passed
            reader = PassingReader(path, buffer, () if passed is None else CONTENT_RANGES)
            part = snapshot_part(reader.header)
            if (problem := part_problem(part, file, below)) is not None:
                raise CorruptLog(problem, path=path, offset=0, sequence=file.first)
            for entries in streamed(reader, buffer, reader.whole(self._decode)):
                self._target.apply(entries)
                self._report(reader.end)
            if passed is not None and reader.passed:
                passed()
            header = reader.header
        self._header = header
        self._epoch = max(self._epoch, header.epoch)
        self._next = header.last_sequence + 1
        self._crc = header.last_crc
        self._timestamp = header.last_timestamp
        self._snapshot_bytes += reader.end
        self._done += reader.end
        return part

    def _check_start(self, first_needed: int) -> None:
        later = [file for file in self._segments if file.number >= first_needed]
        if later and later[0].number != first_needed:
            path = self._folder / later[0].name
            raise CorruptLog(gap_problem(later[0].number, first_needed), path=path, offset=0, sequence=first_needed)

    def _record_covered(self, file: LogFile, following: LogFile | None, first_needed: int) -> None:
        """Record a segment that the snapshot covers and that waits for the archive. The next header has the crc of its seal."""
        path = self._folder / file.name
        header = read_header(self._disk, path)
        last, crc = first_needed - 1, self._crc
        if following is not None:
            last, crc = following.number - 1, read_header(self._disk, self._folder / following.name).previous_crc
        size = self._disk.size(path)
        size += sum(of_file for number, of_file in self._overflow_sizes.items() if file.number <= number <= last)
        self._sealed.append(SealedSegment(path, file.number, last, header.previous_crc, crc, size))

    def _read_segment(self, file: LogFile, *, last: bool) -> None:
        path = self._folder / file.name
        with ExitStack() as views:
            buffer = (self._views if last else views).enter_context(self._disk.view(path))
            reader = open_segment(self._disk, path, buffer)
            if (problem := link_problem(reader.header, self._next, self._crc)) is not None:
                raise CorruptLog(problem, path=path, offset=0, sequence=self._next)
            for entries in streamed(reader, buffer, reader.entries(self._decode)):
                self._target.apply(entries)
                self._timestamp = max(self._timestamp, entries[-1].timestamp if entries else 0)
                self._report(reader.end)
            ending = reader.check_ending(buffer, last=last)
            self._overflows.update(reference.file for reference in reader.overflows)
            self._header = reader.header
            self._epoch = max(self._epoch, reader.header.epoch)
            if ending is not SegmentEnd.SEALED:
                self._repairs.append(partial(self._cut, reader, buffer))
                return
            self._keep(path, reader, reader.seal_crc, len(buffer))
            seal = bytes(buffer[reader.end : reader.end + SEAL_ROOM])
        if last:
            self._repairs.append(partial(self._write_again, path, reader.end, seal))
        self._done += reader.end

    def _keep(self, path: Path, reader: SegmentReader, crc: int, size: int) -> None:
        last = reader.next_sequence - 1
        size += sum(reference.bytes for reference in reader.overflows)
        self._sealed.append(
            SealedSegment(path, reader.header.first_sequence, last, reader.header.previous_crc, crc, size)
        )
        self._next = last + 1
        self._crc = crc

    def _cut(self, reader: SegmentReader, buffer: Buffer) -> None:
        """End the last segment after its last valid block."""
        lost = reader.torn
        if lost:
            evidence = self._folder / torn_name(reader.path.name, self._epoch)
            write_file(self._disk, evidence, [bytes(buffer[: reader.end + lost])])
            self._torn = Torn(reader.path, reader.end, lost, evidence)
        if reader.count:
            seal = Seal(last_sequence=reader.next_sequence - 1, entries=reader.count, bytes=align(reader.end))
            parts, crc = pack_seal(seal, salt=reader.header.salt)
            whole = bytes(buffer[: reader.end]).ljust(seal.bytes, b"\x00")
            write_file(self._disk, reader.path, [whole, *parts])
            self._keep(reader.path, reader, crc, seal.bytes + sum(map(len, parts)))

    def _write_again(self, path: Path, offset: int, seal: bytes) -> None:
        """Make the last segment's seal and name durable: the process that sealed or copied it may have been killed before its
        fsync. The bytes before the seal are durable. A file that a copy of the log has too is not written: it is replaced.
        """
        if self._disk.links(path) > 1:
            with self._disk.view(path) as buffer:
                write_file(self._disk, path, [bytes(buffer[:offset]), seal])
            return
        file = self._disk.open(path)
        try:
            file.write_at(offset, [seal])
            file.datasync()
        finally:
            file.close()
        self._disk.sync_folder(self._folder)

    def _report(self, done: int) -> None:
        if self._progress is not None:
            self._progress(self._done + done, self._total, "recovering")
