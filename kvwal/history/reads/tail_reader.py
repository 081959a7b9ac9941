"""The tail reader: logs are read without their lock, also while another process writes to them.

It repairs nothing. A reader may see a group that is not durable yet. If files vanish while it reads, because a checkpoint covers
them, it reads again. Files are read and not mapped, because their writer may cut them short meanwhile. Of a segment and of each
part of the snapshot one piece at a time is in memory; a `Sink` keeps the entries that are wanted.

This module imports neither asyncio nor Arrow, because `kvwal get` imports it and must be fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from kvwal.entry import Decode, Entry, entry_identity, is_live
from kvwal.errors import ArchiveGap, CorruptLog
from kvwal.key_class import DROPPED, OWN_MAP
from kvwal.log.files.chain import check_belongs
from kvwal.log.files.format import SnapshotHeader
from kvwal.log.files.names import LogFile, log_folder
from kvwal.log.files.snapshot_reader import (
    Snapshot,
    SnapshotFile,
    SnapshotView,
    merge_all,
    merge_all_blocks,
    merge_blocks,
    open_snapshot,
)
from kvwal.log.reader import SegmentReader, entry_decoder, log_files, read_header
from kvwal.log.unlocked.known import KnownLog, KnownSegments
from kvwal.log.unlocked.segments import SegmentWalk
from kvwal.log.unlocked.sinks import LatestOfEach, OfIdentity, Sink
from kvwal.ports.disk import Disk
from kvwal.structures.destroyed import MARKS, FoundMarks, merged_latest
from kvwal_archive.layout import Place

T = TypeVar("T")
LOOKS = 10
"""How often a log whose files change meanwhile is read again."""

Identity = tuple[str, bytes]


S = TypeVar("S", bound=Sink)


class _Everything:
    key: bytes | None = None

    def __init__(self) -> None:
        self.snapshot: list[Entry] = []
        self.tail: list[Entry] = []

    def take(self, first: int, entries: list[Entry]) -> None:
        self.tail += entries

    def take_snapshot(self, last: int, entries: list[Entry]) -> None:
        self.snapshot += entries


class Tail(NamedTuple):
    """The entries in the segments of one log. `first` is the sequence of the first entry."""

    first: int
    entries: list[Entry]


class Local(NamedTuple):
    """The contents of one log's folder: the newest snapshot (its last sequence and timestamp, 0 without one) and the tail.

    `torn` describes the bytes of an unfinished group after the last whole one, None if there are none. A writer is at work
    there, or the next open will cut them.
    """

    log_id: str
    snapshot_last: int
    snapshot_timestamp: int
    snapshot: list[Entry]
    tail: Tail
    torn: str | None


class Reading(NamedTuple, Generic[S]):
    """A log that was read into a sink. Its segments hold the sequences from `first` to before `following`."""

    log_id: str
    snapshot: SnapshotHeader | None
    first: int
    following: int
    sink: S
    torn: str | None


def read_local(disk: Disk, root: Path, place: Place) -> Local:
    """All entries of a log's folder, in memory."""
    reading = read_log(disk, root, place, _Everything, everything=True)
    header = reading.snapshot
    last, timestamp = (header.last_sequence, header.last_timestamp) if header else (0, 0)
    tail = Tail(reading.first, reading.sink.tail)
    return Local(reading.log_id, last, timestamp, reading.sink.snapshot, tail, reading.torn)


def read_log(
    disk: Disk,
    root: Path,
    place: Place,
    sink: Callable[[], S],
    *,
    archived: Callable[[str], int] = lambda log_id: 0,
    until: int | None = None,
    everything: bool = False,
    known: KnownSegments | None = None,
) -> Reading[S]:
    """Read a log's files into a sink, which is made anew each time the files changed under the reader.

    Entries up to the sequence `archived(log_id)` are skipped, because the archive holds them. Entries after the sequence
    `until` are left out. The snapshot is read if the segments do not reach back far enough, or with `everything`. `known` is that
    of a reader that stays open. Raises `ArchiveGap` if a range is neither in the log nor in the archive.
    """
    folder = log_folder(root, place)
    reader = _LogReader(disk, folder, place, known)
    return _read_again(disk, folder, lambda: reader.read(sink(), archived, until, everything))


def latest_entries(disk: Disk, root: Path, place: Place) -> dict[Identity, Entry]:
    """The latest entry of every identity of one log, deletes included."""
    folder = log_folder(root, place)
    reader = _LogReader(disk, folder, place)
    sink = _read_again(disk, folder, lambda: reader.latest(LatestOfEach()))
    return sink.entries


def find_entry(disk: Disk, root: Path, place: Place, identity: Identity) -> Entry | None:
    """The latest entry of one identity in one log, deletes included. Of the snapshot only some blocks are read and checked."""
    folder = log_folder(root, place)
    reader = _LogReader(disk, folder, place)
    return _read_again(disk, folder, lambda: reader.find(identity))[0]


class RangeScan(NamedTuple):
    """The latest entries of a range, deletes included, sorted, and the marks of the map. `snapshot` is read as it is iterated."""

    snapshot: Iterator[list[Entry]]
    newer: list[Entry]
    marks: list[Entry]

    def blocks(self) -> Iterator[list[Entry]]:
        """The entries in blocks, none of which is empty."""
        return merge_blocks(self.snapshot, iter([self.newer] if self.newer else []))


def open_range(
    disk: Disk,
    root: Path,
    place: Place,
    low: Identity,
    high: Identity,
    part: bytes | None,
    opened: ExitStack,
    known: KnownSegments | None = None,
) -> RangeScan:
    """The latest entries of one log with identities from `low` to before `high`, as the log is now.

    `part` are bytes that every key of the range has, None if there are none. `opened` holds the files of the snapshot open.
    `known` is that of a reader that stays open.
    """
    folder = log_folder(root, place)
    reader = _LogReader(disk, folder, place, known)
    return _read_again(disk, folder, lambda: reader.range(low, high, part, opened))


def note_keys(disk: Disk, root: Path, place: Place, known: KnownSegments) -> KnownLog:
    """Note where the keys in the segments of one log are, as the log is now."""
    folder = log_folder(root, place)
    reader = _LogReader(disk, folder, place, known)
    log = known.log(folder)
    _read_again(disk, folder, lambda: reader.note_keys(log))
    return log


def has_entries(disk: Disk, root: Path, place: Place) -> bool:
    """Whether a log has any entry."""
    folder = log_folder(root, place)
    reader = _LogReader(disk, folder, place)
    return _read_again(disk, folder, reader.has_entries)


def merged_entries(disk: Disk, root: Path, places: Iterable[Place], structure: str = OWN_MAP) -> dict[Identity, Entry]:
    """The latest entry of every key of a structure over the logs of several nodes: see `merged_latest`."""
    in_order = sorted(places, key=attrgetter("node"))
    return merged_latest(((place.node, latest_entries(disk, root, place)) for place in in_order), structure)


def latest_of(
    disk: Disk, root: Path, places: Iterable[Place], identity: Identity, now_ms: int, known: KnownSegments | None = None
) -> Entry | None:
    """The latest entry of one key of a map over these logs, None if it is absent. `known` is that of `open_range`."""
    entry, node = None, ""
    found = FoundMarks()
    for place in sorted(places, key=attrgetter("node")):
        folder = log_folder(root, place)
        reader = _LogReader(disk, folder, place, known)
        candidate, marks = _read_again(disk, folder, partial(reader.find, identity))
        found.add(place.node, marks)
        if candidate is not None and (entry is None or candidate.timestamp >= entry.timestamp):
            entry, node = candidate, place.node
    is_shown = entry is not None and is_live(entry, now_ms) and found.marks.shows(node, entry)
    return entry if is_shown else None


class _LogReader:
    """A reader of one log's files as they are now. Raises `FileNotFoundError` for a file that vanished, `CorruptLog`."""

    def __init__(self, disk: Disk, folder: Path, place: Place, known: KnownSegments | None = None) -> None:
        self._disk = disk
        self._folder = folder
        self._place = place
        self._known = known
        self._decode: Decode = entry_decoder()

    def read(self, sink: S, archived: Callable[[str], int], until: int | None, everything: bool) -> Reading[S]:
        """See `read_log`."""
        segments, snapshot = self._files()
        last = snapshot.header.last_sequence if snapshot else 0
        first = segments[0].number if segments else last + 1
        log_id = self._log_id(segments, snapshot)
        passed = 0 if everything else archived(log_id)
        if snapshot is not None and (everything or passed + 1 < first):
            self._take_snapshot(snapshot, sink)
            passed = passed if everything else max(passed, last)
        following, torn = first, None
        for reader, at, entries in self._segments(segments, snapshot, (sink.key,) if sink.key else (), passed):
            following = reader.next_sequence
            if not entries:
                torn = _torn(reader)
            sink.take(*_between(at, entries, passed, until))
        if passed + 1 < first and not everything:
            raise ArchiveGap(
                f"{'/'.join(self._place)}: sequences {passed + 1}–{first - 1} are neither in the log nor in the archive.",
                hint="`kvwal archive verify` and `kvwal log verify` say what is where.",
            )
        return Reading(log_id, snapshot.header if snapshot else None, first, following, sink, torn)

    def latest(self, sink: LatestOfEach) -> LatestOfEach:
        """The latest entry of every identity, deletes included."""
        snapshot, last, newer = self._newer()
        if snapshot is not None:
            self._take_snapshot(snapshot, sink)
        for _, at, entries in self._segments(newer, snapshot, (), last):
            sink.take(at, entries)
        return sink

    def find(self, identity: Identity) -> tuple[Entry | None, list[Entry]]:
        """The latest entry of one identity, deletes included, and the marks of the log's map."""
        key_class, key = identity
        with ExitStack() as opened:
            scan = self.range(identity, (key_class, key + b"\0"), key, opened)
            return next(chain.from_iterable(scan.blocks()), None), scan.marks

    def range(self, low: Identity, high: Identity, part: bytes | None, opened: ExitStack) -> RangeScan:
        """See `open_range`."""
        snapshot, _, newer = self._newer()
        latest: dict[Identity, Entry] = {}
        known = self._known.read(self._folder) if self._known is not None else None
        parts = [self._view(part, opened, known) for part in snapshot.parts] if snapshot else []
        marks = {mark.key: mark for mark in merge_all(part.between_at_start(self._decode, *MARKS) for part in parts)}
        for entries in self._newer_within(newer, snapshot, (low, high), part, known):
            latest.update((key, entry) for entry in entries if low <= (key := entry_identity(entry)) < high)
            marks.update((entry.key, entry) for entry in entries if entry.key_class == DROPPED)
        in_snapshot = merge_all_blocks(view.blocks_between(self._decode, low, high) for view in parts)
        return RangeScan(in_snapshot, [latest[key] for key in sorted(latest)], list(marks.values()))

    def has_entries(self) -> bool:
        """See `has_entries`. One block is read at most."""
        segments, snapshot = self._files()
        if snapshot is not None or len(segments) > 1:
            return True
        return any(entries for _, _, entries in self._segments(segments, None, (), 0))

    def note_keys(self, known: KnownLog) -> None:
        """See `note_keys`."""
        snapshot, _, newer = self._newer()
        known.keep(_names(snapshot, newer))
        for _ in self._walk().within(newer, snapshot.header if snapshot else None, (), (), known):
            pass

    def _files(self) -> tuple[list[LogFile], Snapshot | None]:
        segments, snapshots = log_files(self._disk, self._folder)
        snapshot = open_snapshot(self._disk, self._folder, snapshots)
        if snapshot is not None:
            check_belongs(snapshot.header, self._place, self._folder)
        return segments, snapshot

    def _newer(self) -> tuple[Snapshot | None, int, list[LogFile]]:
        """The snapshot, the last sequence in it (0 without one), and the segments after that."""
        segments, snapshot = self._files()
        last = snapshot.header.last_sequence if snapshot else 0
        return snapshot, last, [file for file in segments if file.number > last]

    def _view(self, part: SnapshotFile, opened: ExitStack, known: KnownLog | None) -> SnapshotView:
        view = opened.enter_context(self._disk.view(part.path))
        return SnapshotView(part.path, view, known.probes(part.path.name, part.header.salt) if known else None)

    def _newer_within(
        self,
        newer: list[LogFile],
        snapshot: Snapshot | None,
        wanted: tuple[Identity, Identity],
        part: bytes | None,
        known: KnownLog | None,
    ) -> Iterator[list[Entry]]:
        """The entries of the blocks of these segments that may have wanted identities, or marks of the map."""
        header = snapshot.header if snapshot else None
        holding = (part, DROPPED.encode()) if part else ()
        if known is not None:
            known.keep(_names(snapshot, newer))
            return self._walk().within(newer, header, [wanted, MARKS], holding, known)
        last = header.last_sequence if header else 0
        return (entries for _, _, entries in self._walk().blocks(newer, header, holding, last))

    def _log_id(self, segments: list[LogFile], snapshot: Snapshot | None) -> str:
        if not segments:
            return snapshot.header.log_id if snapshot else ""
        return read_header(self._disk, self._folder / segments[-1].name).log_id

    def _take_snapshot(self, snapshot: Snapshot, sink: Sink) -> None:
        last = snapshot.header.last_sequence
        if isinstance(sink, OfIdentity):
            entry = snapshot.find(self._decode, sink.identity)
            sink.take_snapshot(last, [entry] if entry is not None else [])
            return
        for entries in snapshot.whole(self._decode):
            sink.take_snapshot(last, entries)

    def _segments(
        self, files: list[LogFile], snapshot: Snapshot | None, holding: Sequence[bytes], passed: int
    ) -> Iterator[tuple[SegmentReader, int, list[Entry]]]:
        """See `SegmentWalk.blocks`."""
        return self._walk().blocks(files, snapshot.header if snapshot else None, holding, passed)

    def _walk(self) -> SegmentWalk:
        endings = self._known.endings if self._known is not None else None
        return SegmentWalk(self._disk, self._folder, self._place, self._decode, endings)


def _between(at: int, entries: list[Entry], passed: int, until: int | None) -> tuple[int, list[Entry]]:
    """The entries with sequences after `passed` and up to `until`; `at` is the sequence of the first entry given."""
    begin = max(0, passed + 1 - at)
    end = len(entries) if until is None else max(begin, until + 1 - at)
    return at + begin, entries[begin:end] if begin or end < len(entries) else entries


def _names(snapshot: Snapshot | None, segments: Iterable[LogFile]) -> set[str]:
    parts = snapshot.parts if snapshot else ()
    return {*(part.path.name for part in parts), *(file.name for file in segments)}


def _torn(reader: SegmentReader) -> str | None:
    return f"{reader.path}: {reader.torn} bytes after byte {reader.end}" if reader.torn else None


def _read_again(disk: Disk, folder: Path, read: Callable[[], T]) -> T:
    """The result of `read`, which is called again if the log's files changed meanwhile: vanished, were renamed, or grew."""
    before = disk.names(folder)
    for _ in range(LOOKS):
        try:
            return read()
        except FileNotFoundError:
            before = disk.names(folder)
        except CorruptLog:
            now = disk.names(folder)
            if now == before:
                return read()
            before = now
    return read()
