"""Checkpoints: the sealed segments after the last snapshot are merged into a new part of the snapshot.

A snapshot is a base with deltas above it. A checkpoint writes the changes as a new delta. It merges into this delta the older
deltas, and finally the base, that are not much larger than the delta. So the bytes written are in proportion to the changes, and
a log has few deltas (docs/decisions/0032).

A checkpoint reads files, not the live map, so it needs no lock and no pause, and runs in another process. It can be killed at any
instruction and run again: nothing is changed until the new part has its name, and afterwards the parts that it replaces are
superfluous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kvwal.entry import TIMESTAMP_SHIFT, Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.log.files.chain import missing_part_problem, snapshot_parts, superseded
from kvwal.log.files.format import FORMAT, Header, SnapshotHeader
from kvwal.log.files.names import LogFile, parse_name, partial_name
from kvwal.log.files.segment import SealedSegment
from kvwal.log.files.snapshot import in_blocks, size_of, write_snapshot
from kvwal.log.files.snapshot_reader import merge_all
from kvwal.log.latest_entries import LatestEntries
from kvwal.log.overflow.read import sealed_blocks
from kvwal.log.reader import SnapshotReader, log_files, read_header, streamed
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk

ROUND_BYTES = 64 << 20
"""Bytes of segments that are held in memory at a time; more segments are merged in several rounds."""
FILE_BYTES = 512
"""About the bytes of a file's header and seal."""
Holds = Callable[[str, bytes, int], bool]
"""Whether a delete of this identity with this timestamp is needed elsewhere. Called in the order of identities."""


class Tombstones(NamedTuple):
    """Rule for the deletes that a base leaves out: those up to the timestamp `before`, unless they are needed elsewhere.

    `holds` is called once for each base and returns the function that says whether a delete is needed elsewhere.
    """

    before: int = 0
    holds: Callable[[], Holds] = lambda: _needed_nowhere


def _needed_nowhere(key_class: str, key: bytes, timestamp: int) -> bool:
    return False


class CheckpointResult(NamedTuple):
    """Result of a checkpoint: the new part's last sequence, its number of entries, and the bytes of all parts of the snapshot."""

    last_sequence: int
    entries: int
    size: int
    is_delta: bool


def checkpoint(
    disk: Disk,
    clock: Clock,
    folder: Path,
    segments: Sequence[SealedSegment],
    decode: Decode,
    *,
    tombstones: Tombstones = Tombstones(),
    leaves_out: str | None = None,
) -> CheckpointResult | None:
    """Bring the snapshot in `folder` up to the end of `segments`, which are sealed and in order.

    A base leaves out the deletes that `tombstones` says. An expired entry counts as a delete, and is written as one. Entries of
    the segments that have the class `leaves_out` are left out: they stand in other files.
    Returns None if the snapshot already ended there.
    """
    result = None
    for batch in _rounds(segments):
        result = _round(disk, clock, folder, batch, decode, tombstones, leaves_out) or result
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
    disk: Disk,
    clock: Clock,
    folder: Path,
    segments: list[SealedSegment],
    decode: Decode,
    tombstones: Tombstones,
    leaves_out: str | None,
) -> CheckpointResult | None:
    snapshots = log_files(disk, folder)[1]
    parts = snapshot_parts(snapshots)
    segments = _uncovered(folder, segments, parts)
    if not segments:
        return None
    tag = f"{clock.random_bits(64):016x}"  # an archiver that outlived its killed parent may be at the same work
    with LatestEntries(decode, disk, lambda number: folder / partial_name(f"fold-{tag}-{number}")) as newer:
        for segment in segments:
            for _, entries in sealed_blocks(disk, segment, decode):
                newer.add(entry for entry in entries if entry.key_class != leaves_out)
        plan = _plan(disk, folder, parts, segments[0], newer)
        if plan.kept:
            tombstones = Tombstones()  # the entries that a delete shadows may be in a part that stays
        counter = _Counter()
        merged = merge_all([newer.in_order(), *(_stream(disk, folder, part, decode, counter) for part in plan.merged)])
        blocks = _blocks(_kept(merged, plan.timestamp >> TIMESTAMP_SHIFT, tombstones, counter), counter)
        made = _made([read_header(disk, segment.path) for segment in segments], segments[-1], plan)
        path = write_snapshot(disk, clock, folder, made, blocks, left_out=lambda: counter.left_out)
    for file in superseded(snapshots, [parse_name(path.name), *plan.kept]):
        disk.unlink(folder / file.name)  # after a power cut it may be there again, which does no harm
    return CheckpointResult(made.last_sequence, counter.entries, disk.size(path) + plan.kept_bytes, bool(plan.kept))


def _made(headers: Sequence[Header], last: SealedSegment, plan: _Plan) -> SnapshotHeader:
    """The header of the part that a plan makes, up to the end of the segment `last`. `headers` are those of its segments."""
    header = headers[-1]
    return SnapshotHeader(
        format=max(plan.format, *(header.format for header in headers)),
        log_id=header.log_id, namespace=header.namespace, cluster=header.cluster, business=header.business,
        node=header.node, epoch=header.epoch, first_sequence=plan.first, previous_crc=plan.previous_crc,
        salt=0, created_ms=0, last_sequence=last.last, last_crc=last.crc, last_timestamp=plan.timestamp,
    )  # fmt: skip


def _uncovered(folder: Path, segments: list[SealedSegment], parts: list[LogFile]) -> list[SealedSegment]:
    """The segments after the end of the snapshot. `CorruptLog` if there is a gap."""
    if (problem := missing_part_problem(parts)) is not None:
        raise CorruptLog(problem, path=folder / parts[-1].name, offset=0, sequence=parts[-1].first - 1)
    covered = parts[0].number if parts else 0
    segments = [segment for segment in segments if segment.last > covered]
    if segments and segments[0].first != covered + 1:
        raise CorruptLog(
            f"the log continues with sequence {segments[0].first}, and the snapshot ends with sequence {covered}.",
            path=segments[0].path, offset=0, sequence=covered + 1,
        )  # fmt: skip
    return segments


class _Plan(NamedTuple):
    """Plan of a new part: the parts that it merges and the parts that stay below it, each newest first, then its first sequence,
    the seal before it, its last timestamp, the format of the merged parts, and the bytes of the parts that stay.
    """

    merged: list[LogFile]
    kept: list[LogFile]
    first: int
    previous_crc: int
    timestamp: int
    format: int
    kept_bytes: int


def _plan(disk: Disk, folder: Path, parts: list[LogFile], segment: SealedSegment, newer: LatestEntries) -> _Plan:
    sizes = [disk.size(folder / part.name) for part in parts]
    count = _worth_merging(sizes, FILE_BYTES + newer.size())
    headers = [_header(disk, folder / part.name) for part in parts]
    timestamp = max([*(header.last_timestamp for header in headers[:1]), newer.timestamp])
    first, previous_crc, format = segment.first, segment.previous_crc, FORMAT
    for header in headers[:count]:
        first, previous_crc, format = header.first_sequence, header.previous_crc, max(format, header.format)
    return _Plan(parts[:count], parts[count:], first, previous_crc, timestamp, format, sum(sizes[count:]))


def _worth_merging(sizes: Sequence[int], new: int) -> int:
    """How many of the newest parts to merge into a new part that has `new` bytes without them. `sizes` are those of the parts.

    A part is merged if the new part has at least half its size by then. So a part grows by about half whenever its entries are
    written again (a few changes do not get as small as many, which are compressed), and a part that stays is more than twice as
    large as the parts above it together. The number of times that an entry is written, and the number of parts in which a key
    is looked up, are therefore logarithmic.
    """
    for count, size in enumerate(sizes):
        if size > 2 * new:
            return count
        new += size
    return len(sizes)


def _header(disk: Disk, path: Path) -> SnapshotHeader:
    with disk.view(path) as buffer:
        return SnapshotReader(path, buffer).header


class _Counter:
    """Counts the entries of a generator, known once the generator has ended. `left_out`: see `Seal`."""

    def __init__(self) -> None:
        self.entries = 0
        self.left_out = 0


def _kept(merged: Iterator[Entry], now_ms: int, tombstones: Tombstones, counter: _Counter) -> Iterator[Entry]:
    """The entries of a part whose last entry has the time `now_ms`. Nobody reads the part as of an earlier time."""
    holds = tombstones.holds()
    for entry in merged:
        if not entry.deleted and not 0 < entry.expires <= now_ms:  # `is_live` in place: its call costs 7 % of this loop
            yield entry
        elif entry.timestamp > tombstones.before or holds(entry.key_class, entry.key, entry.timestamp):
            yield Entry(entry.key, entry.key_class, b"", "", True, entry.timestamp)
        elif holds is _needed_nowhere:  # not checked whether another node has an older entry of the key
            counter.left_out = max(counter.left_out, entry.timestamp)


def _stream(disk: Disk, folder: Path, part: LogFile, decode: Decode, counter: _Counter) -> Iterator[Entry]:
    path = folder / part.name
    with disk.view(path) as buffer:
        reader = SnapshotReader(path, buffer)
        for entries in streamed(reader, buffer, reader.whole(decode)):
            yield from entries
        counter.left_out = max(counter.left_out, reader.left_out)


def _blocks(entries: Iterator[Entry], counter: _Counter) -> Iterator[list[Entry]]:
    for block in in_blocks(entries, size_of):
        counter.entries += len(block)
        yield block
