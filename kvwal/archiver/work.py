"""The work of the archiver process. Each job can be killed at any instruction and run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

import msgspec

from kvwal.archiver.contents import Uploads, clean
from kvwal.archiver.jobs import (
    Answer,
    Archive,
    Archived,
    ArchiverJob,
    ArchiveTarget,
    Checkpoint,
    Checkpointed,
    Clean,
    Compact,
    Compacted,
    Failed,
    Remove,
    Removed,
    SegmentRef,
    Several,
    SeveralAnswers,
    up_to_bytes,
)
from kvwal.archiver.large_segment import put_large
from kvwal.archiver.scratch import scratch_beside_log
from kvwal.entry import TIMESTAMP_SHIFT, Decode, time_mark
from kvwal.errors import ArchiveError, ArchiveGap, KvwalError
from kvwal.history.provenance.write import tidy_events, write_events
from kvwal.history.reads.entry_rows import to_table
from kvwal.key_class import DROPPED, EVENTS, TIME_MARK
from kvwal.log.appender import FULL
from kvwal.log.checkpoint import Tombstones, checkpoint
from kvwal.log.files.atomic_file import delete_abandoned
from kvwal.log.files.chain import snapshot_parts
from kvwal.log.files.snapshot_reader import open_snapshot
from kvwal.log.overflow.read import sealed_blocks
from kvwal.log.reader import entry_decoder, log_files
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.ports.disk import OS_DISK, Disk
from kvwal.ports.locks import Lock
from kvwal_archive import reader, registry, writer
from kvwal_archive.bases.collect import gc_bases
from kvwal_archive.contents.collect import gc_contents
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.layout import Span
from kvwal_archive.lost_tails import lost_tails, remove_lost_tails
from kvwal_archive.maintenance import compaction
from kvwal_archive.maintenance.events import Apart, tidy_archived_events
from kvwal_archive.maintenance.remove_log import LogEnd, remove_log
from kvwal_archive.maintenance.tombstones import OlderRows, others_of
from kvwal_archive.objects import Known, Objects, OneLook, open_objects
from kvwal_archive.objects.look import Scratch
from kvwal_archive.parquet.object_file import Seals
from kvwal_archive.reader import Coverage

OBJECT_BYTES = 64 << 20
"""Limit of the segments that go into one object, which is built in memory."""

LARGE_BYTES = 2 * OBJECT_BYTES
"""A segment above this size, which has overflow files, is sorted in files. It is in an object of its own."""

_CONTENT_GC_MS = 6 * 3_600_000
"""How often this process looks in the archive for claim files that nothing names: it reads all claims of a business for that."""
_looked: dict[tuple[str, ...], int] = {}
"""When it last looked (unix ms), by archive and business."""

Run = Callable[[list[Callable[[], "Archived | Failed"]]], "list[Archived | Failed]"]
"""Calls the functions and returns their results, in their order."""


def _in_turn(calls: list[Callable[[], Archived | Failed]]) -> list[Archived | Failed]:
    return [call() for call in calls]


def answer(job: ArchiverJob, disk: Disk = OS_DISK, clock: Clock = SYSTEM, run: Run = _in_turn) -> Answer:
    """Do the job. An error of kvwal or of the operating system is an answer too. `run` does the jobs of `Several`."""
    if isinstance(job, Several):
        return SeveralAnswers(run([partial(_archived, archive_job, disk, clock) for archive_job in job.jobs]))
    try:
        if isinstance(job, Checkpoint):
            return _checkpoint(job, disk, clock)
        if isinstance(job, Archive):
            return _archive(job, disk, clock)
        if isinstance(job, Remove):
            return _remove_log(job)
        if isinstance(job, Clean):
            return clean(job, disk, clock.wall_ms(), entry_decoder(), partial(_archived_files, job.target))
        return _compact(job, disk, clock)
    except (KvwalError, OSError) as error:
        return _failed(job, error)


def _archived(job: Archive, disk: Disk, clock: Clock) -> Archived | Failed:
    try:
        return _archive(job, disk, clock)
    except (KvwalError, OSError) as error:
        return _failed(job, error)


def _failed(job: ArchiverJob, error: KvwalError | OSError) -> Failed:
    if isinstance(error, KvwalError):
        return Failed(type(error).__name__, error.what, error.hint)
    what = f"{type(job).__name__.lower()} failed: {error}."
    if error.errno in FULL:
        return Failed("StorageFull", what, "Free space: nothing was changed, and it is tried again.")
    return Failed("ArchiveError", what, "It is tried again.")


def _checkpoint(job: Checkpoint, disk: Disk, clock: Clock) -> Checkpointed:
    segments = [ref.segment() for ref in job.segments]
    # The rest belongs to the process that has the log open, or to another job.
    delete_abandoned(disk, Path(job.folder), only=lambda name: ".snapshot." in name)
    write_events(disk, clock, Path(job.folder), segments, entry_decoder())
    done = checkpoint(
        disk, clock, Path(job.folder), segments, entry_decoder(), tombstones=_tombstones(job), leaves_out=EVENTS
    )
    tidy_events(disk, clock, Path(job.folder), job.keep)
    if done is not None:
        return Checkpointed(done.last_sequence, done.size, done.is_delta)
    parts = snapshot_parts(log_files(disk, Path(job.folder))[1])
    if not parts:
        return Checkpointed(0, 0)
    return Checkpointed(parts[0].number, sum(disk.size(Path(job.folder) / part.name) for part in parts))


def _tombstones(job: Checkpoint) -> Tombstones:
    """The deletes that the snapshot may leave out. All deletes stay if the shared archive does not answer."""
    if job.shared is None or not job.deletes_before:
        return Tombstones(job.deletes_before)
    try:
        objects = open_target(job.shared)
        others = others_of(objects, job.shared.place)
    except (KvwalError, OSError):
        return Tombstones()
    before = min(job.deletes_before, others.passed)
    return Tombstones(before, lambda: OlderRows(objects, others.infos, before >> TIMESTAMP_SHIFT).holds)


@lru_cache(maxsize=8)
def _opened(url: str, options: bytes) -> tuple[Objects, Known]:
    return open_objects(url, msgspec.json.decode(options)), Known(Lock())


def open_target(target: ArchiveTarget, scratch: Scratch | None = None) -> OneLook:
    """The archive of a target for one job, which lists the objects of its business once. The archive itself is opened once.

    `scratch` makes the folders for the files of the job.
    """
    objects, known = _opened(target.url, msgspec.json.encode(target.options))
    place = target.place
    return OneLook(objects, f"{place.namespace}/{place.cluster}/{place.business}/", known, scratch)


def _scratch(job: Archive | Compact, disk: Disk, clock: Clock) -> Scratch:
    return partial(scratch_beside_log, disk, clock, Path(job.folder), job.reserve_bytes)


def _archive(job: Archive, disk: Disk, clock: Clock) -> Archived:
    objects = open_target(job.target, _scratch(job, disk, clock))
    place = job.target.place
    registry.register(objects, place, job.target.log_id)
    if not objects.known.refuses_taken_keys:
        registry.check_conditions(objects, place, job.target.log_id)
        objects.known.refuses_taken_keys = True
    covered = reader.coverage(objects, place, job.target.log_id)
    last, left_out = covered.last, 0
    timestamp = covered.max_timestamp
    decode = entry_decoder()
    wanted = [ref for ref in job.segments if ref.last > last]
    _check_same_log(job, objects, covered)
    begins = wanted[0].first if wanted else _snapshot_end(disk, Path(job.folder)) + 1
    uploads = Uploads(objects, place, disk, Path(job.folder))
    if last == 0 and begins > 1:
        uploads.snapshot(decode)
        last, seeded, left_out = _seed(job, disk, objects, decode, begins)
        timestamp = max(timestamp, seeded)
        wanted = [ref for ref in wanted if ref.last > last]
    elif begins > last + 1:
        raise ArchiveGap(
            f"{objects.url}: {place.prefix} ends with {last}, and the oldest segment here begins with {begins}.",
            hint="Objects were removed, or the store went on without this archive: put them back, or begin another archive"
            " (with the snapshot).",
        )
    for batch in _batches(up_to_bytes(wanted, job.most_bytes)):
        uploads.segments([ref.segment() for ref in batch], decode)
        if batch[0].size > LARGE_BYTES:
            greatest = put_large(objects, place, job.target.log_id, disk, decode, batch[0].segment())
        else:
            greatest = _put(objects, job.target, disk, decode, batch)
        timestamp = max(timestamp, greatest)
        last = batch[-1].last
    where = (place.namespace, place.cluster, place.business)
    nodes = [other.node for other in registry.registered(objects, *where)]
    lost = len(lost_tails(objects, *where))
    return Archived(last, timestamp, nodes, left_out, objects.requests, lost, uploads.missing)


def _check_same_log(job: Archive, objects: Objects, covered: Coverage) -> None:
    """Check that the log has the seal with which the archive ends, and goes on from there. Raises ArchiveError.

    An older copy of the log's folder, or a copy that was written to as well, has other entries under the same sequences.
    """
    last = covered.last
    if not last:
        return
    seals = {ref.first - 1: ref.previous_crc for ref in job.segments} | {ref.last: ref.crc for ref in job.segments}
    seals[job.ends] = job.ends_crc
    runs_over = any(ref.first <= last < ref.last for ref in job.segments)
    if job.ends >= last and not runs_over and seals.get(last, covered.seal_crc) == covered.seal_crc:
        return
    raise ArchiveError(
        f"{job.folder}: the archive {objects.url} holds this log up to {last}, and what is here does not go on from"
        f" there ({job.ends} is its last sealed sequence): this is an older copy of the log, or its end is missing, or a copy of"
        " its folder was opened too and archives there.",
        hint="Nothing is archived or dropped here. Use one folder only: the one that the archive has. What this one alone has,"
        " `kvwal log repair` saves (operations.md, An older copy of a log).",
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


def _put(objects: Objects, target: ArchiveTarget, disk: Disk, decode: Decode, batch: list[SegmentRef]) -> int:
    """Put an object with these segments. Returns its greatest timestamp. Memory holds its rows, as columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.concat_tables(
        to_table(list(enumerate(block, first)))
        for ref in batch
        for first, block in sealed_blocks(disk, ref.segment(), decode)
    )
    writer.put_segment(
        objects, target.place, Span(batch[0].first, batch[-1].last), table,
        log_id=target.log_id, previous_crc=batch[0].previous_crc, seal_crcs=[ref.crc for ref in batch],
    )  # fmt: skip
    greatest: int = pc.max(table.column("timestamp")).as_py()
    return greatest


def _snapshot_end(disk: Disk, folder: Path) -> int:
    snapshots = log_files(disk, folder)[1]
    return snapshots[-1].number if snapshots else 0


def _seed(job: Archive, disk: Disk, objects: Objects, decode: Decode, begins: int) -> tuple[int, int, int]:
    """Begin an archive with the log's snapshot, because its first segments are gone. The horizon is the last timestamp.

    Returns the last sequence, the last timestamp, and the greatest timestamp of a delete that the snapshot may lack.
    """
    folder = Path(job.folder)
    parts = log_files(disk, folder)[1]
    snapshot = open_snapshot(disk, folder, parts)
    if snapshot is None or snapshot.header.last_sequence < begins - 1:
        raise ArchiveGap(
            f"{folder}: sequences 1–{begins - 1} are in no segment and in no snapshot, so the archive cannot begin.",
            hint="Restore from the archive that holds them.",
        )
    header = snapshot.header
    need = sum(disk.size(folder / part.name) for part in snapshot_parts(parts))
    blocks = snapshot.whole(decode)
    # An object needs a row, and an empty snapshot has none.
    first = next(blocks, []) or [time_mark(header.last_timestamp)]
    batches = (
        batch
        for block in chain([first], blocks)
        for batch in to_table([(header.last_sequence, entry) for entry in block]).to_batches()
    )
    with objects.scratch(need) as scratch:
        writer.put_snapshot(
            objects, job.target.place, Span(1, header.last_sequence, header.last_timestamp), batches,
            Seals(job.target.log_id, 0, [header.last_crc]), scratch / "seed",
        )  # fmt: skip
    return header.last_sequence, header.last_timestamp, snapshot.left_out


def _remove_log(job: Remove) -> Removed:
    end = LogEnd(job.target.log_id, job.last_sequence, job.last_timestamp)
    return Removed(remove_log(open_target(job.target), job.target.place, end, DROPPED, TIME_MARK))


def _events_apart(job: Compact, now_ms: int) -> Apart:
    """The events that are kept in objects of their own, and how long."""
    keep = job.keep
    before = 0 if keep.keep_seconds is None else max(0, now_ms - round(keep.keep_seconds * 1000)) << TIMESTAMP_SHIFT
    return Apart(EVENTS, before, keep.keep_bytes)


def _archived_files(target: ArchiveTarget | None) -> set[str]:
    """The claim files that the archive of a business holds; none without an archive, and if it does not answer."""
    if target is None:
        return set()
    try:
        place = target.place
        return set(ArchivedContents(open_target(target), place.namespace, place.cluster, place.business).sizes())
    except (KvwalError, OSError):
        return set()


def _compact(job: Compact, disk: Disk, clock: Clock) -> Compacted:
    objects = open_target(job.target, _scratch(job, disk, clock))
    place = job.target.place
    now = clock.wall_ms()
    apart = _events_apart(job, now) if job.keep.on or reader.list_events(objects, place) else None
    written = [
        new.key for new in compaction.rewrite(objects, place, now_ms=now, history_ms=job.history_ms, apart=apart)
    ]
    removed = compaction.gc(objects, place, now_ms=now, grace_ms=job.grace_ms)
    objects.look_again()
    if apart is not None:
        merged, dropped = reader.listed_again(partial(tidy_archived_events, objects, place, apart))
        written, removed = written + merged, removed + dropped
    where = (place.namespace, place.cluster, place.business)
    removed += gc_bases(objects, *where, now_ms=now, grace_ms=job.grace_ms)
    if now - _looked.get((job.target.url, *where), 0) >= _CONTENT_GC_MS:
        removed += gc_contents(objects, *where, now_ms=now, grace_ms=job.grace_ms)
        _looked[job.target.url, *where] = now
    removed += remove_lost_tails(objects, *where, max(0, now - job.history_ms) << TIMESTAMP_SHIFT)
    lost = len(lost_tails(objects, *where))
    return Compacted(len(written), len(removed), objects.requests, lost)
