"""What the archiver process does with a job. Each can be killed at any instruction and simply run again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from archive import reader, registry, rewrite, writer
from archive.layout import Span
from archive.objects import Objects, open_objects
from archive.reader import Coverage
from kvwal.archiver.jobs import (
    Answer,
    Archive,
    Archived,
    Checkpoint,
    Checkpointed,
    Failed,
    Job,
    Kept,
    SegmentRef,
    Target,
    Upkeep,
)
from kvwal.entry import Decode, Entry
from kvwal.errors import ArchiveGap, ConfigError, KvwalError
from kvwal.log.appender import FULL
from kvwal.log.checkpoint import checkpoint
from kvwal.log.reader import End, SegmentReader, SnapshotReader, entry_decoder, log_files
from kvwal.log.segment import SealedSegment
from kvwal.past import to_table
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.ports.disk import OS_DISK, Disk

OBJECT_BYTES = 64 << 20
"""Segments that go into one object; it is built in memory."""


def answer(job: Job, disk: Disk = OS_DISK, clock: Clock = SYSTEM) -> Answer:
    """Do the job. An error of ours, or of the operating system, is an answer too."""
    try:
        if isinstance(job, Checkpoint):
            return _checkpoint(job, disk, clock)
        if isinstance(job, Archive):
            return _archive(job, disk)
        return _upkeep(job, clock)
    except KvwalError as error:
        return Failed(type(error).__name__, error.what, error.hint)
    except OSError as error:
        what = f"{type(job).__name__.lower()} failed: {error}."
        if error.errno in FULL:
            return Failed("StorageFull", what, "Free space: nothing was changed, and it is tried again.")
        return Failed("ArchiveError", what, "It is tried again.")


def _checkpoint(job: Checkpoint, disk: Disk, clock: Clock) -> Checkpointed:
    segments = [ref.segment() for ref in job.segments]
    done = checkpoint(disk, clock, Path(job.folder), segments, entry_decoder(), tombstones_before=job.tombstones_before)
    if done is not None:
        return Checkpointed(done.last_sequence, done.size)
    snapshots = log_files(disk, Path(job.folder))[1]
    if not snapshots:
        return Checkpointed(0, 0)
    return Checkpointed(snapshots[-1].number, disk.size(Path(job.folder) / snapshots[-1].name))


@lru_cache(maxsize=8)
def _opened(url: str, options: bytes) -> Objects:
    return open_objects(url, msgspec.json.decode(options))


def open_target(target: Target) -> Objects:
    """The archive of a target; opened once."""
    return _opened(target.url, msgspec.json.encode(target.options))


def _archive(job: Archive, disk: Disk) -> Archived:
    objects = open_target(job.target)
    place = job.target.where()
    registry.register(objects, place, job.target.log_id)
    covered = reader.coverage(objects, place, job.target.log_id)
    last = covered.last
    timestamp = covered.max_timestamp
    decode = entry_decoder()
    wanted = [ref for ref in job.segments if ref.last > last]
    _check_same_log(job, objects, covered, wanted)
    begins = wanted[0].first if wanted else _snapshot_ends(disk, Path(job.folder)) + 1
    if last == 0 and begins > 1:
        last, seeded = _seed(job, disk, objects, decode, begins)
        timestamp = max(timestamp, seeded)
        wanted = [ref for ref in wanted if ref.last > last]
    elif begins > last + 1:
        raise ArchiveGap(
            f"{objects.url}: {place.prefix} ends with {last}, and the oldest segment here begins with {begins}.",
            hint="Objects were removed, or the store went on without this archive: put them back, or begin another archive"
            " (with the snapshot).",
        )
    for batch in _batches(wanted):
        timestamp = max(timestamp, _put(objects, job.target, disk, decode, batch))
        last = batch[-1].last
    nodes = [found.node for found in registry.registered(objects, place.namespace, place.cluster, place.business)]
    return Archived(last, timestamp, nodes)


def _check_same_log(job: Archive, objects: Objects, covered: Coverage, wanted: list[SegmentRef]) -> None:
    """The log must go on where the archive ends: an older copy of its folder would put other entries under the same numbers."""
    if not covered.last:
        return
    follows = not wanted or wanted[0].first > covered.last + 1 or wanted[0].previous_crc == covered.seal_crc
    if job.ends >= covered.last and follows and not (wanted and wanted[0].first <= covered.last):
        return
    raise ConfigError(
        f"{job.folder}: the archive {objects.url} holds this log up to {covered.last}, and what is here does not go on from"
        f" there ({job.ends} is its last sealed sequence): this is an older copy of the log, or its end is missing.",
        hint="Put the newer folder back; or make one log of both with `kvwal log repair --take-over`.",
    )


def _batches(refs: list[SegmentRef]) -> Iterator[list[SegmentRef]]:
    batch: list[SegmentRef] = []
    for ref in refs:
        if batch and sum(item.size for item in batch) + ref.size > OBJECT_BYTES:
            yield batch
            batch = []
        batch.append(ref)
    if batch:
        yield batch


def _put(objects: Objects, target: Target, disk: Disk, decode: Decode, batch: list[SegmentRef]) -> int:
    numbered: list[tuple[int, Entry]] = []
    for ref in batch:
        numbered += enumerate(read_sealed(disk, ref.segment(), decode), ref.first)
    writer.put_segment(
        objects, target.where(), Span(batch[0].first, batch[-1].last), to_table(numbered),
        log_id=target.log_id, previous_crc=batch[0].previous_crc, seal_crcs=[ref.crc for ref in batch],
    )  # fmt: skip
    return max(entry.timestamp for _, entry in numbered)


def read_sealed(disk: Disk, segment: SealedSegment, decode: Decode) -> list[Entry]:
    """The entries of a sealed segment; `CorruptLog` if it is not whole or not the one that was sealed."""
    with disk.view(segment.path) as buffer:
        found = SegmentReader(segment.path, buffer)
        entries = [entry for block in found.entries(decode) for entry in block]
        if found.ending() is not End.SEALED or found.seal_crc != segment.crc:
            raise found.damage()
    return entries


def _snapshot_ends(disk: Disk, folder: Path) -> int:
    snapshots = log_files(disk, folder)[1]
    return snapshots[-1].number if snapshots else 0


def _seed(job: Archive, disk: Disk, objects: Objects, decode: Decode, begins: int) -> tuple[int, int]:
    """Begin an archive for a log whose first segments are gone: with its snapshot, whose horizon is its last timestamp."""
    folder = Path(job.folder)
    snapshots = log_files(disk, folder)[1]
    if not snapshots or snapshots[-1].number < begins - 1:
        raise ArchiveGap(
            f"{folder}: sequences 1–{begins - 1} are in no segment and in no snapshot, so the archive cannot begin.",
            hint="Restore from the archive that holds them.",
        )
    path = folder / snapshots[-1].name
    with disk.view(path) as buffer:
        found = SnapshotReader(path, buffer)
        header = found.header
        entries = [entry for block in found.whole(decode) for entry in block]
    writer.put_segment(
        objects, job.target.where(), Span(1, header.last_sequence, header.last_timestamp),
        to_table([(header.last_sequence, entry) for entry in entries]),
        log_id=job.target.log_id, previous_crc=0, seal_crcs=[header.last_crc],
    )  # fmt: skip
    return header.last_sequence, header.last_timestamp


def _upkeep(job: Upkeep, clock: Clock) -> Kept:
    objects = open_target(job.target)
    place = job.target.where()
    now = clock.wall_ms()
    written = rewrite.rewrite(objects, place, now_ms=now, history_ms=job.history_ms)
    removed = rewrite.gc(objects, place, now_ms=now, grace_ms=job.grace_ms)
    return Kept(len(written), len(removed))
