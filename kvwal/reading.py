"""Reading logs without their lock: what another process holds open can be read at any time.

Nothing is repaired here. A reader may see a group that is not durable yet, and files may go while it reads (a checkpoint
covers them): then it looks again. Files are read, not mapped, because their writer may cut them short meanwhile.

This room is light on purpose (no asyncio, no Arrow): `kvwal get` imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from archive.layout import Place
from kvwal.entry import Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.log.chain import check_belongs, unlinked
from kvwal.log.format import SnapshotHeader
from kvwal.log.names import LogFile, find_places, log_folder
from kvwal.log.reader import End, SegmentReader, SnapshotReader, entry_decoder, log_files
from kvwal.ports.disk import Disk

T = TypeVar("T")
_LOOKS = 10

Identity = tuple[str, bytes]


class Tail(NamedTuple):
    """The entries of one log that are in its segments here: `first` is the sequence of the first one."""

    first: int
    entries: list[Entry]


class Local(NamedTuple):
    """One log as it stands in its folder: the newest snapshot (its last sequence and timestamp, 0 without one) and the tail.

    `torn` says where bytes of an unfinished group stand behind the last whole one: of a writer at work, or what the next
    open will cut.
    """

    log_id: str
    snapshot_last: int
    snapshot_timestamp: int
    snapshot: list[Entry]
    tail: Tail
    torn: str | None


def read_local(disk: Disk, root: Path, place: Place) -> Local:
    """All that the folder of a log holds."""
    folder = log_folder(root, place)
    decode = entry_decoder()
    return _looked_again(disk, folder, lambda: _read_local(disk, folder, place, decode))


def latest_entries(disk: Disk, root: Path, place: Place) -> dict[Identity, Entry]:
    """The latest entry of every identity of one log, deletes included."""
    folder = log_folder(root, place)
    decode = entry_decoder()
    return _looked_again(disk, folder, lambda: _read_latest(disk, folder, place, decode))


def merged_entries(disk: Disk, root: Path, places: Iterable[Place]) -> dict[Identity, Entry]:
    """The latest entry of every identity over the logs of several nodes, by (timestamp, node); deletes included."""
    merged: dict[Identity, Entry] = {}
    for place in sorted(places, key=lambda place: place.node):
        found = latest_entries(disk, root, place)
        if not merged:
            merged = found
            continue
        for identity, entry in found.items():
            other = merged.get(identity)
            if other is None or entry.timestamp >= other.timestamp:
                merged[identity] = entry
    return merged


def live_entry(
    disk: Disk,
    root: Path,
    namespace: str,
    cluster: str,
    business: str,
    node: str | None,
    identity: Identity,
    now_ms: int,
) -> Entry | None:
    """The latest entry of one identity over the nodes (or of one node), None if it is absent."""
    places = [place for place in find_places(disk, root, namespace, cluster, business) if node in (None, place.node)]
    entry = merged_entries(disk, root, places).get(identity)
    gone = entry is None or entry.deleted or 0 < entry.expires <= now_ms
    return None if gone else entry


def _read_latest(disk: Disk, folder: Path, place: Place, decode: Decode) -> dict[Identity, Entry]:
    segments, snapshots = log_files(disk, folder)
    latest: dict[Identity, Entry] = {}
    header = None
    if snapshots:
        snapshot = _snapshot(disk, folder, place, snapshots[-1])
        header = snapshot.header
        for entries in snapshot.whole(decode):
            for entry in entries:
                latest[entry.key_class, entry.key] = entry
    covered = header.last_sequence if header else 0
    newer = [file for file in segments if file.number > covered]
    for _, entries in _segments(disk, folder, place, newer, decode, header):
        for entry in entries:
            latest[entry.key_class, entry.key] = entry
    return latest


def _read_local(disk: Disk, folder: Path, place: Place, decode: Decode) -> Local:
    segments, snapshots = log_files(disk, folder)
    last, timestamp, log_id, held, header = 0, 0, "", [], None
    if snapshots:
        snapshot = _snapshot(disk, folder, place, snapshots[-1])
        held = [entry for entries in snapshot.whole(decode) for entry in entries]
        header = snapshot.header
        last, timestamp, log_id = header.last_sequence, header.last_timestamp, header.log_id
    tail: list[Entry] = []
    torn = None
    for reader, entries in _segments(disk, folder, place, segments, decode, header):
        log_id = reader.header.log_id
        tail += entries
        if not entries:
            torn = _torn(reader)
    return Local(log_id, last, timestamp, held, Tail(segments[0].number if segments else last + 1, tail), torn)


def _torn(reader: SegmentReader) -> str | None:
    lost = reader.torn_bytes() if reader.seal is None else 0
    return f"{reader.path}: {lost} bytes behind byte {reader.end}" if lost else None


def _snapshot(disk: Disk, folder: Path, place: Place, file: LogFile) -> SnapshotReader:
    path = folder / file.name
    reader = SnapshotReader(path, disk.read(path))
    check_belongs(reader.header, place, folder)
    return reader


def _segments(
    disk: Disk, folder: Path, place: Place, files: list[LogFile], decode: Decode, snapshot: SnapshotHeader | None
) -> Iterator[tuple[SegmentReader, list[Entry]]]:
    """The blocks of these segments, and at the end of each one without entries. What is missing is `CorruptLog`."""
    wanted, crc = (snapshot.last_sequence + 1, snapshot.last_crc) if snapshot else (1, 0)
    for index, file in enumerate(files):
        path = folder / file.name
        reader = SegmentReader(path, disk.read(path))
        check_belongs(reader.header, place, folder)
        wrong = unlinked(reader.header, wanted, crc) if index or file.number >= wanted else None
        if wrong is not None:
            raise CorruptLog(wrong, path=path, offset=0, sequence=wanted)
        for entries in reader.entries(decode):
            yield reader, entries
        ending = reader.ending()
        if ending is End.DAMAGED or (ending is End.TORN and index < len(files) - 1):
            raise reader.damage()
        yield reader, []
        wanted, crc = reader.next_sequence, reader.seal_crc


def _looked_again(disk: Disk, folder: Path, read: Callable[[], T]) -> T:
    """`read()`, and again if what it read was on the move: a file that went, or that got another name or more blocks."""
    before = _sight(disk, folder)
    for _ in range(_LOOKS):
        try:
            return read()
        except FileNotFoundError:
            before = _sight(disk, folder)
        except CorruptLog:
            now = _sight(disk, folder)
            if now == before:
                return read()
            before = now
    return read()


def _sight(disk: Disk, folder: Path) -> list[str]:
    return disk.names(folder)
