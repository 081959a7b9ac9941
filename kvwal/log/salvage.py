"""What can be saved of a damaged log: every entry whose block verifies, wherever it stands. Nothing of the log is changed.

What is saved becomes a log of its own, in another folder, with the timestamps the entries had.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from archive.layout import Place
from kvwal.config import Settings
from kvwal.entry import Decode, Entry, encode_entries
from kvwal.errors import CorruptLog, KvwalError
from kvwal.log.appender import Appender
from kvwal.log.format import DURABLE, Header, Kind, find_blocks
from kvwal.log.names import LogFile, log_folder
from kvwal.log.reader import SegmentReader, SnapshotReader, log_files
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk

BLOCK_ENTRIES = 1000
_STAGE = "_saving"


class Saved(NamedTuple):
    """`entries` in the order of their timestamps, each change once; `lost` says in sentences what could not be read."""

    entries: list[Entry]
    lost: list[str]


def salvage(disk: Disk, folder: Path, decode: Decode) -> Saved:
    """Read what verifies in the newest whole snapshot, in damaged ones newer than it, and in every segment."""
    segments, snapshots = log_files(disk, folder)
    found: dict[tuple[int, str, bytes], Entry] = {}
    lost: list[str] = []
    for file in reversed(snapshots):
        complaints = len(lost)
        _take(found, _read_snapshot(disk, folder / file.name, decode, lost))
        if len(lost) == complaints:
            break
    for number, file in enumerate(segments):
        following = segments[number + 1] if number + 1 < len(segments) else None
        _take(found, _read_segment(disk, folder / file.name, file, following, decode, lost))
    return Saved([found[change] for change in sorted(found)], lost)


def write_saved(disk: Disk, clock: Clock, root: Path, place: Place, saved: Saved) -> Path:
    """Make what was saved the log of `place` under another root, durable and closed; the folder gets its name last."""
    stage = root / _STAGE
    disk.remove_tree(stage)
    disk.make_folders(stage)
    header = Header(
        log_id=f"{clock.random_bits(128):032x}", namespace=place.namespace, cluster=place.cluster, business=place.business,
        node=place.node, epoch=0, first_sequence=1, previous_crc=0, salt=0, created_ms=0,
    )  # fmt: skip
    appender = Appender(disk, clock, stage, header, Settings(), [])
    for start in range(0, len(saved.entries), BLOCK_ENTRIES):
        block = saved.entries[start : start + BLOCK_ENTRIES]
        appender.append([encode_entries(block)], len(block), sync=False)
    appender.close(seal=True)
    folder = log_folder(root, place)
    disk.make_folders(folder.parent)
    disk.rename(stage, folder)
    disk.sync_folder(folder.parent)
    disk.sync_folder(root)
    return folder


def _take(found: dict[tuple[int, str, bytes], Entry], entries: Iterator[Entry]) -> None:
    for entry in entries:
        found[entry.timestamp, entry.key_class, entry.key] = entry


def _read_snapshot(disk: Disk, path: Path, decode: Decode, lost: list[str]) -> Iterator[Entry]:
    try:
        for entries in SnapshotReader(path, disk.read(path)).whole(decode):
            yield from entries
    except CorruptLog as error:
        lost.append(str(error.what))


def _read_segment(
    disk: Disk, path: Path, file: LogFile, following: LogFile | None, decode: Decode, lost: list[str]
) -> Iterator[Entry]:
    """The entries of the blocks that verify, in order; a tail that a crash tore off was never acknowledged and stays away."""
    buffer = disk.read(path)
    count = 0
    try:
        reader = SegmentReader(path, buffer)
        for entries in reader.entries(decode):
            count += len(entries)
            yield from entries
    except KvwalError as error:
        lost.append(error.what)
        return
    if reader.seal is not None:
        return
    behind = list(find_blocks(buffer, reader.end, reader.header.salt))
    if following is None and not any(block.flags & DURABLE for block in behind):
        return
    for block in behind:
        if block.kind is Kind.ENTRIES:
            try:
                entries = decode(block.payload)
            except msgspec.DecodeError:
                continue
            count += len(entries)
            yield from entries
    lost.append(_what_is_missing(path, file, following, reader.end, count))


def _what_is_missing(path: Path, file: LogFile, following: LogFile | None, offset: int, count: int) -> str:
    where = f"{path}: a block at byte {offset} does not verify"
    if following is None:
        return f"{where}; how many entries it held is not known."
    last = following.number - 1
    return f"{where}; {last - file.number + 1 - count} of the sequences {file.number}–{last} are lost."
