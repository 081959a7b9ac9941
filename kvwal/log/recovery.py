"""Opening a log: what a crash can leave behind, and what is done about each. Nothing is ever deleted that held an entry.

States of the last segment (only the last may lack a seal):

 1. clean        it ends with its seal: the log was closed, or killed while it made the seal durable. The seal is written again.
 2. only_header  nothing behind the header: the log was opened and not written to. The next segment takes its name.
 3. unsealed     whole blocks, then zeros or stale bytes of a recycled file: the process was killed. Sealed by copying.
 4. torn_block   a block that does not verify, no later block that says it was durable: power was lost in the middle of a
                 group that nobody was told about. Cut there; the file as it was stays as `.torn`, and is reported.
 5. torn_group   the same, with whole later blocks of the same group, or, under `interval` and `os`, of groups that were not
                 synced. Cut at the first that does not verify.
 6. torn_seal    all blocks whole, the seal not: killed while closing. Sealed again.
 7. damaged      a block does not verify, and a later one says that it had been durable: `CorruptLog`, nothing is touched.

Anywhere else:

 8. partial      `*.partial`: a segment, spare or snapshot that was not finished. Deleted: nothing points to it.
 9. missing      a segment that the chain of seals needs is not there, or another one stands in its place: `CorruptLog`.
10. damaged_middle   a segment that is not the last has no seal, or a block in it does not verify: `CorruptLog`.
11. damaged_snapshot a part of the newest snapshot does not verify: the parts below it, or an older snapshot, are used if
                 segments reach back to them, else `CorruptLog`. It stays as `.torn`, and so do the parts above it, out of the
                 way of the next checkpoint, and is reported.
12. bad_header   a segment whose header does not verify: it got its name only after the header was durable, so `CorruptLog`.
13. newer        any of them in a format that this version does not know: `NewerVersion`.
14. superseded   parts of a snapshot beside a wider one: killed before what was merged was removed. The wider one counts, and
                 the next checkpoint removes the others.
15. missing_part a part that those above it need is not there: as a damaged one.

An unsealed segment is not sealed in place: after a failed fsync the page cache may be younger than the disk, so its whole
blocks are copied into a new file, which is made durable and renamed over it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kvwal.entry import Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.log.files.chain import Part, lacking, missing, part_of, snapshot_parts, unlinked, unlinked_part
from kvwal.log.files.format import Header, Seal, align, pack_seal
from kvwal.log.files.names import FileKind, LogFile, parse_name, partial_name, torn_name
from kvwal.log.files.segment import SEAL_ROOM, SealedSegment
from kvwal.log.reader import End, Progress, SegmentReader, SnapshotReader, log_files
from kvwal.ports.disk import Buffer, Disk

_ORPHANS = 5
"""Archivers of killed parents that may still be at work."""


class Torn(NamedTuple):
    """A tail that was cut: where it stood, how many bytes were not zero, and the file that keeps them."""

    path: Path
    offset: int
    bytes: int
    evidence: Path


class Recovered(NamedTuple):
    """A log as it was found. `header` is that of its last file, None for a new log; `sealed` are its segments, oldest first.

    `snapshot` is the newest part of the snapshot that was read, `snapshot_bytes` the size of all its parts. `torn` is the tail
    that was cut, `set_aside` are damaged parts, and those above them, under the names that keep them.
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


class RecoveryTarget(NamedTuple):
    """Where entries go, in log order; `clear` forgets them all (a snapshot turned out to be damaged half-way)."""

    apply: Callable[[list[Entry]], None]
    clear: Callable[[], None]


def recover(
    disk: Disk, folder: Path, target: RecoveryTarget, decode: Decode, progress: Progress | None = None
) -> Recovered:
    """Read the log in `folder` into `target` and leave it so that a new segment can follow. The caller holds its lock.

    An archiver that outlived its killed parent may finish its checkpoint meanwhile: then a snapshot goes that was seen, and a
    newer one is there. Each such archiver does so once.
    """
    _delete_partials(disk, folder)
    for _ in range(_ORPHANS):
        try:
            return _Recovery(disk, folder, target, decode, progress).run()
        except FileNotFoundError:
            target.clear()
    return _Recovery(disk, folder, target, decode, progress).run()


def _delete_partials(disk: Disk, folder: Path) -> None:
    for name in disk.names(folder):
        if parse_name(name).kind is FileKind.PARTIAL:
            disk.unlink(folder / name)


class _Recovery:
    """One run. Fields are filled from top to bottom."""

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
        self._next = 1
        self._crc = 0
        self._timestamp = 0
        self._snapshot_bytes = 0

    def run(self) -> Recovered:
        snapshot = self._read_snapshots()
        first_needed = self._next
        self._check_start(first_needed)
        for index, file in enumerate(self._segments):
            last = index == len(self._segments) - 1
            if file.number >= first_needed:
                self._read_segment(file, last=last)
            else:
                self._pass_over(file, self._segments[index + 1] if not last else None, first_needed)
        return Recovered(
            self._header, self._epoch + 1, self._next, self._crc, self._timestamp,
            snapshot, self._snapshot_bytes if snapshot else 0, self._sealed, self._torn,
            [self._set_aside(file) for file in self._damaged],
        )  # fmt: skip

    def _read_snapshots(self) -> LogFile | None:
        """The newest snapshot whose parts are whole. An older one serves only if the segments behind it are still there."""
        failure: CorruptLog | None = None
        left = list(self._snapshots)
        while parts := snapshot_parts(left):
            if failure is not None and not self._reaches(parts[0].number):
                break
            reading = parts[0]
            try:
                self._check_parts(parts)
                below: Part | None = None
                for reading in reversed(parts):
                    below = self._read_part(reading, below)
            except CorruptLog as error:
                failure = failure or error
                left.remove(reading)
                self._damaged.append(reading)
                self._forget()
            else:
                return parts[0]
        if failure is not None and not (self._segments and self._segments[0].number == 1):
            raise failure
        self._damaged += left  # of an older snapshot, or above what is damaged: the segments hold all of it
        return None

    def _check_parts(self, parts: list[LogFile]) -> None:
        if (wrong := lacking(parts)) is not None:
            raise CorruptLog(wrong, path=self._folder / parts[-1].name, offset=0, sequence=parts[-1].first - 1)

    def _forget(self) -> None:
        """What was read of a snapshot that cannot be used."""
        self._target.clear()
        self._header = None
        self._next = 1
        self._epoch = self._crc = self._timestamp = self._snapshot_bytes = self._done = 0

    def _set_aside(self, file: LogFile) -> Path:
        """Keep a snapshot that could not be read where no checkpoint builds on it. The next segment makes the name durable."""
        kept = self._folder / torn_name(file.name, self._epoch)
        self._disk.rename(self._folder / file.name, kept)
        return kept

    def _reaches(self, sequence: int) -> bool:
        return any(file.number == sequence + 1 for file in self._segments)

    def _read_part(self, file: LogFile, below: Part | None) -> Part:
        path = self._folder / file.name
        with self._disk.view(path) as buffer:
            reader = SnapshotReader(path, buffer)
            part = part_of(reader.header)
            if (wrong := unlinked_part(part, file, below)) is not None:
                raise CorruptLog(wrong, path=path, offset=0, sequence=file.first)
            for entries in reader.whole(self._decode):
                self._target.apply(entries)
                self._report(reader.end)
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
            raise CorruptLog(missing(later[0].number, first_needed), path=path, offset=0, sequence=first_needed)

    def _pass_over(self, file: LogFile, following: LogFile | None, first_needed: int) -> None:
        """A segment that a snapshot covers: it waits for the archive. Its seal is in the header of the next one."""
        path = self._folder / file.name
        with self._disk.view(path) as buffer:
            header = SegmentReader(path, buffer).header
        if following is None:
            last, crc = first_needed - 1, self._crc
        else:
            following_path = self._folder / following.name
            with self._disk.view(following_path) as buffer:
                crc = SegmentReader(following_path, buffer).header.previous_crc
            last = following.number - 1
        self._sealed.append(SealedSegment(path, file.number, last, header.previous_crc, crc, self._disk.size(path)))

    def _read_segment(self, file: LogFile, *, last: bool) -> None:
        path = self._folder / file.name
        with self._disk.view(path) as buffer:
            reader = SegmentReader(path, buffer)
            if (wrong := unlinked(reader.header, self._next, self._crc)) is not None:
                raise CorruptLog(wrong, path=path, offset=0, sequence=self._next)
            for entries in reader.entries(self._decode):
                self._target.apply(entries)
                self._timestamp = max(self._timestamp, entries[-1].timestamp if entries else 0)
                self._report(reader.end)
            ending = reader.ending()
            if ending is End.DAMAGED or (ending is End.TORN and not last):
                raise reader.damage()
            self._header = reader.header
            self._epoch = max(self._epoch, reader.header.epoch)
            if ending is End.TORN:
                self._cut(reader, buffer)
                return
            self._keep(path, reader, reader.seal_crc, len(buffer))
            seal = bytes(buffer[reader.end : reader.end + SEAL_ROOM])
        if last:
            self._write_again(path, reader.end, seal)
        self._done += reader.end

    def _keep(self, path: Path, reader: SegmentReader, crc: int, size: int) -> None:
        last = reader.next_sequence - 1
        self._sealed.append(
            SealedSegment(path, reader.header.first_sequence, last, reader.header.previous_crc, crc, size)
        )
        self._next = last + 1
        self._crc = crc

    def _cut(self, reader: SegmentReader, buffer: Buffer) -> None:
        """End the last segment behind its last whole block."""
        lost = reader.torn_bytes()
        if lost:
            evidence = self._folder / torn_name(reader.path.name, self._epoch)
            self._write(evidence, [bytes(buffer[: reader.end + lost])])
            self._torn = Torn(reader.path, reader.end, lost, evidence)
        if reader.count:
            seal = Seal(last_sequence=reader.next_sequence - 1, entries=reader.count, bytes=align(reader.end))
            parts, crc = pack_seal(seal, salt=reader.header.salt)
            whole = bytes(buffer[: reader.end]).ljust(seal.bytes, b"\x00")
            self._write(reader.path, [whole, *parts])
            self._keep(reader.path, reader, crc, seal.bytes + sum(map(len, parts)))

    def _write_again(self, path: Path, offset: int, seal: bytes) -> None:
        """Make the seal of the last segment durable, and its name: whoever sealed it, or copied it, may have been killed before
        its fsync. What is before the seal is durable.
        """
        file = self._disk.open(path)
        try:
            file.write_at(offset, [seal])
            file.datasync()
        finally:
            file.close()
        self._disk.sync_folder(self._folder)

    def _write(self, path: Path, parts: list[bytes]) -> None:
        partial = self._folder / partial_name(path.name)
        self._disk.unlink(partial)
        file = self._disk.create(partial)
        try:
            file.write_at(0, parts)
            file.datasync()
        except OSError:
            self._disk.unlink(partial)
            raise
        finally:
            file.close()
        self._disk.rename(partial, path)
        self._disk.sync_folder(self._folder)

    def _report(self, done: int) -> None:
        if self._progress is not None:
            self._progress(self._done + done, self._total, "recovering")
