"""A checkpoint: the last snapshot and the sealed segments behind it, merged into the next snapshot.

It reads files, not the live map, so it needs no lock and no pause and runs in another process. It can be killed at any
instruction and simply run again: until the new snapshot has its name nothing was changed, and afterwards the old one is only
in the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kvwal.entry import Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.log.format import Header, SnapshotHeader
from kvwal.log.names import LogFile
from kvwal.log.reader import End, SegmentReader, SnapshotReader, log_files
from kvwal.log.segment import SealedSegment
from kvwal.log.snapshot import in_blocks, write_snapshot
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk

ROUND_BYTES = 256 << 20
"""Segments that are held in memory at a time; more are merged in several rounds."""


class Checkpointed(NamedTuple):
    """What a checkpoint made: the snapshot's last sequence, its entries and its size."""

    last_sequence: int
    entries: int
    size: int


def checkpoint(
    disk: Disk,
    clock: Clock,
    folder: Path,
    segments: Sequence[SealedSegment],
    decode: Decode,
    *,
    tombstones_before: int = 0,
) -> Checkpointed | None:
    """Bring the snapshot in `folder` up to the end of `segments`, which are sealed and in order.

    Tombstones at or before the timestamp `tombstones_before` are left out: every archive has passed them. Returns None if
    the snapshot was there already.
    """
    result = None
    for batch in _rounds(segments):
        result = _round(disk, clock, folder, batch, decode, tombstones_before) or result
    return result


def _rounds(segments: Sequence[SealedSegment]) -> Iterator[list[SealedSegment]]:
    batch: list[SealedSegment] = []
    size = 0
    for segment in segments:
        if batch and size + segment.size > ROUND_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(segment)
        size += segment.size
    if batch:
        yield batch


def _round(
    disk: Disk, clock: Clock, folder: Path, segments: list[SealedSegment], decode: Decode, tombstones_before: int
) -> Checkpointed | None:
    snapshots = log_files(disk, folder)[1]
    old = snapshots[-1] if snapshots else None
    covered = old.number if old else 0
    segments = [segment for segment in segments if segment.last > covered]
    if not segments:
        return None
    if segments[0].first != covered + 1:
        raise CorruptLog(
            f"the log goes on with sequence {segments[0].first}, and the snapshot ends with {covered}.",
            path=segments[0].path, offset=0, sequence=covered + 1,
        )  # fmt: skip
    newer, header = _fold(disk, segments, decode)
    entries, timestamp, counter = _merge(disk, folder, old, newer, decode, tombstones_before)
    snapshot = SnapshotHeader(
        log_id=header.log_id, namespace=header.namespace, cluster=header.cluster, business=header.business,
        node=header.node, epoch=header.epoch, first_sequence=1, previous_crc=0, salt=0, created_ms=0,
        last_sequence=segments[-1].last, last_crc=segments[-1].crc, last_timestamp=timestamp,
    )  # fmt: skip
    path = write_snapshot(disk, clock, folder, snapshot, entries)
    for file in snapshots:  # after a power cut they may be there again, only in the way of nothing
        disk.unlink(folder / file.name)
    return Checkpointed(snapshot.last_sequence, counter.entries, disk.size(path))


def _fold(disk: Disk, segments: list[SealedSegment], decode: Decode) -> tuple[list[Entry], Header]:
    """The latest entry of every identity in these segments, sorted, and the header of the last."""
    latest: dict[tuple[str, bytes], Entry] = {}
    for segment in segments:
        with disk.view(segment.path) as buffer:
            reader = SegmentReader(segment.path, buffer)
            for entries in reader.entries(decode):
                for entry in entries:
                    latest[entry.key_class, entry.key] = entry
            if reader.ending() is not End.SEALED or reader.seal_crc != segment.crc:
                raise reader.damage()
            header = reader.header
    return [latest[identity] for identity in sorted(latest)], header


class _Counter:
    """Counts what a generator gave, for whoever used the generator up."""

    def __init__(self) -> None:
        self.entries = 0


def _merge(
    disk: Disk, folder: Path, old: LogFile | None, newer: list[Entry], decode: Decode, tombstones_before: int
) -> tuple[Iterator[list[Entry]], int, _Counter]:
    """Blocks of the new snapshot, its last timestamp, and a count of its entries."""
    counter = _Counter()
    timestamp = max(entry.timestamp for entry in newer)
    if old is not None:
        path = folder / old.name
        with disk.view(path) as buffer:
            header = SnapshotReader(path, buffer).header
        timestamp = max(timestamp, header.last_timestamp)
    merged = merge_sorted(_stream(disk, folder, old, decode), newer)
    kept = (entry for entry in merged if not (entry.deleted and entry.timestamp <= tombstones_before))
    return _blocks(kept, counter), timestamp, counter


def _stream(disk: Disk, folder: Path, old: LogFile | None, decode: Decode) -> Iterator[Entry]:
    if old is None:
        return
    path = folder / old.name
    with disk.view(path) as buffer:
        for entries in SnapshotReader(path, buffer).whole(decode):
            yield from entries


def merge_sorted(older: Iterator[Entry], newer: list[Entry]) -> Iterator[Entry]:
    """Two runs sorted by identity as one; of two entries of one identity the newer run's."""
    position = 0
    for entry in older:
        identity = (entry.key_class, entry.key)
        while position < len(newer) and (newer[position].key_class, newer[position].key) < identity:
            yield newer[position]
            position += 1
        if position < len(newer) and (newer[position].key_class, newer[position].key) == identity:
            continue
        yield entry
    yield from newer[position:]


def _blocks(entries: Iterator[Entry], counter: _Counter) -> Iterator[list[Entry]]:
    for block in in_blocks(entries, lambda entry: len(entry.value) + len(entry.key)):
        counter.entries += len(block)
        yield block
