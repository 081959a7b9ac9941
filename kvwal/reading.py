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
    """One log as it stands in its folder: the newest snapshot (its last sequence and timestamp, 0 without one) and the tail."""

    log_id: str
    snapshot_last: int
    snapshot_timestamp: int
    snapshot: list[Entry]
    tail: Tail


def read_local(disk: Disk, root: Path, place: Place) -> Local:
    """All that the folder of a log holds."""
    folder = log_folder(root, place)
    decode = entry_decoder()
    return _looked_again(disk, folder, lambda: _read_local(disk, folder, decode))


def latest_entries(disk: Disk, root: Path, place: Place) -> dict[Identity, Entry]:
    """The latest entry of every identity of one log, deletes included."""
    folder = log_folder(root, place)
    decode = entry_decoder()
    return _looked_again(disk, folder, lambda: _read_latest(disk, folder, decode))


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


def _read_latest(disk: Disk, folder: Path, decode: Decode) -> dict[Identity, Entry]:
    segments, snapshots = log_files(disk, folder)
    latest: dict[Identity, Entry] = {}
    covered = 0
    if snapshots:
        covered = snapshots[-1].number
        for entries in _snapshot(disk, folder, snapshots[-1]).whole(decode):
            for entry in entries:
                latest[entry.key_class, entry.key] = entry
    for _, entries in _segments(disk, folder, [file for file in segments if file.number > covered], decode):
        for entry in entries:
            latest[entry.key_class, entry.key] = entry
    return latest


def _read_local(disk: Disk, folder: Path, decode: Decode) -> Local:
    segments, snapshots = log_files(disk, folder)
    last, timestamp, log_id, held = 0, 0, "", []
    if snapshots:
        snapshot = _snapshot(disk, folder, snapshots[-1])
        held = [entry for entries in snapshot.whole(decode) for entry in entries]
        header = snapshot.header
        last, timestamp, log_id = header.last_sequence, header.last_timestamp, header.log_id
    tail: list[Entry] = []
    for reader, entries in _segments(disk, folder, segments, decode):
        log_id = reader.header.log_id
        tail += entries
    return Local(log_id, last, timestamp, held, Tail(segments[0].number if segments else last + 1, tail))


def _snapshot(disk: Disk, folder: Path, file: LogFile) -> SnapshotReader:
    path = folder / file.name
    return SnapshotReader(path, disk.read(path))


def _segments(
    disk: Disk, folder: Path, files: list[LogFile], decode: Decode
) -> Iterator[tuple[SegmentReader, list[Entry]]]:
    for index, file in enumerate(files):
        path = folder / file.name
        reader = SegmentReader(path, disk.read(path))
        for entries in reader.entries(decode):
            yield reader, entries
        ending = reader.ending()
        last = index == len(files) - 1
        if ending is End.DAMAGED or (ending is End.TORN and not last):
            raise reader.damage()
        if not last and files[index + 1].number != reader.next_sequence:
            raise CorruptLog(
                f"the log goes on with sequence {files[index + 1].number}, and {reader.next_sequence} is missing.",
                path=folder / files[index + 1].name, offset=0, sequence=reader.next_sequence,
            )  # fmt: skip


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
