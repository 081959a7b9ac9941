"""Salvage: every entry of a damaged log whose block verifies is read, wherever the block stands. The log is not changed.

A block is taken whole or not at all. Sequences are counted from the beginning of a segment up to the damage, and after the
damage backwards from the segment's seal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from kvwal.entry import Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.log.files.chain import snapshot_parts
from kvwal.log.files.format import (
    DURABLE,
    HEAD_BYTES,
    Block,
    BlockKind,
    SnapshotHeader,
    block_size,
    decode_seal,
    find_blocks,
)
from kvwal.log.files.names import LogFile
from kvwal.log.reader import SegmentReader, SnapshotReader, log_files
from kvwal.ports.disk import Buffer, Disk
from kvwal.scrub.compare_archive import missing
from kvwal.scrub.salt_recovery import find_salt
from kvwal.scrub.salvaged_overflow import SalvagedOverflow

R = TypeVar("R")


class Lost(NamedTuple):
    """A range of sequences of which a file lacks `entries` entries. `last` and `entries` are 0 if unknown.

    `in_snapshot`: the file is a part of a snapshot, damaged or missing. It had the latest values of the range's keys.
    """

    first: int
    last: int
    entries: int
    where: str
    in_snapshot: bool = False


class Saved(NamedTuple):
    """The entries that verify, and the losses.

    `entries` are those of segments, in order, with their sequences (0: not known). `snapshot` are those of snapshots, which are
    whole up to the sequence `covered` (0: no snapshot is whole). `epoch` is the greatest one in the files, `log_id` theirs.
    """

    entries: list[tuple[int, Entry]]
    snapshot: list[Entry]
    covered: int
    epoch: int
    log_id: str
    lost: list[Lost]


def salvage(disk: Disk, folder: Path, decode: Decode) -> Saved:
    """Read all entries that verify in the snapshots and segments of a log."""
    segments, snapshots = log_files(disk, folder)
    saved = _read_snapshots(disk, folder, snapshots, decode)
    newest = snapshots[-1].number if snapshots else 0
    reached = min(newest, segments[0].number - 1) if segments else newest
    for number, file in enumerate(segments):
        if file.number > reached + 1:
            lost = Lost(reached + 1, file.number - 1, file.number - 1 - reached, "a segment is missing")
            saved.lost.append(lost)
        following = segments[number + 1].number if number + 1 < len(segments) else 0
        segment = _Segment(disk, folder / file.name, file, following, decode)
        saved.entries.extend(segment.entries)
        saved.lost.extend(segment.lost)
        saved = saved._replace(epoch=max(saved.epoch, segment.epoch), log_id=saved.log_id or segment.log_id)
        reached = segment.last
    return saved


def _read_snapshots(disk: Disk, folder: Path, snapshots: Sequence[LogFile], decode: Decode) -> Saved:
    """The entries of the newest snapshot, of a damaged part those of the blocks that verify.

    If a part is damaged or missing, older snapshots are read too, until one is whole.
    """
    saved = Saved([], [], 0, 0, "", [])
    newest = max((file.number for file in snapshots), default=0)
    for first, last in missing([(file.first, file.number) for file in snapshots], newest):
        saved.lost.append(Lost(first, last, 0, "a part of the snapshot is missing", in_snapshot=True))
    left, whole = list(snapshots), set[LogFile]()
    while parts := snapshot_parts(left):
        for file in parts:
            if file not in whole and (header := _read_part(disk, folder / file.name, file, decode, saved)) is not None:
                saved = saved._replace(epoch=max(saved.epoch, header.epoch), log_id=saved.log_id or header.log_id)
                whole.add(file)
        if whole.issuperset(parts) and parts[-1].first == 1:
            return saved._replace(covered=parts[0].number)
        bad = [file for file in parts if file not in whole] or parts[:1]
        left = [file for file in left if file not in bad]
    return saved


def _read_part(disk: Disk, path: Path, file: LogFile, decode: Decode, saved: Saved) -> SnapshotHeader | None:
    """Add the entries and the loss of a part to `saved`. Returns the part's header if it is whole, else None."""
    buffer = disk.read(path)
    try:
        reader = SnapshotReader(path, buffer)
        entries = [entry for block in reader.whole(decode) for entry in block]
    except CorruptLog:
        intact, holes = _intact_entries(path, buffer, decode)
        saved.snapshot.extend(intact)
        saved.lost.append(Lost(file.first, file.number, 0, f"{file.name} is damaged ({holes})", in_snapshot=True))
        return None
    saved.snapshot.extend(entries)
    return reader.header


def _intact_entries(path: Path, buffer: Buffer, decode: Decode) -> tuple[list[Entry], str]:
    """The entries of a damaged snapshot that verify, and the keys between which entries are lost: it is sorted by key."""
    reader = _opened(SnapshotReader, path, buffer)
    salt = find_salt(buffer) if reader is None else reader.header.salt
    if salt is None:
        return [], "nothing of it can be read"
    runs = _runs(find_blocks(buffer, 1, salt), decode)
    holes = [f"{_key(before.entries[-1:])} and {_key(after.entries[:1])}" for before, after in pairwise(runs)]
    known = f"keys are lost between {', between '.join(holes)}" if holes else "which keys are lost is not known"
    return [entry for run in runs for entry in run.entries], known


def _key(entries: Sequence[Entry]) -> str:
    return repr(entries[0].key.decode("utf-8", "backslashreplace")) if entries else "the end"


def _opened(reader: Callable[[Path, Buffer], R], path: Path, buffer: Buffer) -> R | None:
    """The reader of a file, None if its header is damaged."""
    try:
        return reader(path, buffer)
    except CorruptLog:
        return None


class _Segment:
    """The intact entries of a segment, and its losses. `last` is the last sequence that it held, as far as that is known."""

    def __init__(self, disk: Disk, path: Path, file: LogFile, following: int, decode: Decode) -> None:
        """`following` is the first sequence of the next segment, 0 for the last."""
        buffer = disk.read(path)
        overflow = SalvagedOverflow(disk, path, decode)
        reader = _opened(SegmentReader, path, buffer)
        if reader is None:  # the length may be damaged, too; the blocks agree on the salt
            begins = block_size(int.from_bytes(buffer[:4], "little"))
            begins = begins if begins < len(buffer) else 0
            salt, self.epoch, self.log_id = find_salt(buffer), 0, ""
        else:
            begins, salt = reader.start, reader.header.salt
            self.epoch, self.log_id = reader.header.epoch, reader.header.log_id
        blocks = list(find_blocks(buffer, 1, salt)) if salt is not None else []
        runs = _runs(blocks if following else _without_torn(blocks, begins), decode, overflow)
        sealed = next((_sealed(block) for block in blocks if block.kind is BlockKind.SEAL), 0)
        end = sealed or max(following - 1, 0)
        count = sum(len(run.entries) for run in runs)
        self.last = end or file.number + count - 1
        self.entries = [(0, entry) for run in runs for entry in run.entries]
        self.lost: list[Lost] = []
        unbroken = len(runs) == 1 and runs[0].start == begins
        if end == file.number + count - 1 or (not end and (unbroken or (not runs and _is_blank(buffer, begins)))):
            front, back = count, 0
        else:
            front = len(runs[0].entries) if runs and runs[0].start == begins else 0
            back = len(runs[-1].entries) if sealed and len(runs) > bool(front) else 0
            offset = runs[0].end if front else begins
            where = overflow.damaged or f"{path.name} is damaged at byte {offset}"
            missed = end and end - file.number + 1 - count
            self.lost.append(Lost(file.number + front, end and end - back, missed, where))
        for index in range(front):
            self.entries[index] = (file.number + index, self.entries[index][1])
        for index in range(back):
            self.entries[-1 - index] = (end - index, self.entries[-1 - index][1])


def _is_blank(buffer: Buffer, begins: int) -> bool:
    """Whether no block was ever written: an end mark follows the header, before the stale bytes of a recycled file."""
    return not any(buffer[begins : begins + HEAD_BYTES])


def _without_torn(blocks: list[Block], begins: int) -> list[Block]:
    """The blocks of the last segment, without those after a tear that a crash has left.

    A tear is damage, and the blocks after it are kept, if one of them is marked as durable. Else the next open would have cut
    them too.
    """
    at = begins
    for number, block in enumerate(blocks):
        if block.offset != at and not any(later.flags & DURABLE for later in blocks[number:]):
            return blocks[:number]
        at = block.end
    return blocks


_NOWHERE = -1


class _IntactRun(NamedTuple):
    """A run of blocks without a gap: its first and last offset, and its entries."""

    start: int
    end: int
    entries: list[Entry]


def _runs(blocks: Iterable[Block], decode: Decode, overflow: SalvagedOverflow | None = None) -> list[_IntactRun]:
    """The runs of blocks that verify, without blocks of another shape. A seal after a gap is a run without entries.

    What is intact of a damaged overflow file is a run between two gaps.
    """
    runs: list[_IntactRun] = []
    for block in blocks:
        entries: list[Entry] = []
        if block.kind is BlockKind.OVERFLOW and overflow is not None:
            entries, is_whole = overflow.read(block)
            if not is_whole:
                runs.append(_IntactRun(_NOWHERE, _NOWHERE, entries))
                continue
        if block.kind is BlockKind.ENTRIES:
            try:
                entries = decode(block.payload)
            except msgspec.DecodeError:
                continue
        if runs and runs[-1].end == block.offset:
            runs[-1].entries.extend(entries)
            runs[-1] = runs[-1]._replace(end=block.end)
        else:
            runs.append(_IntactRun(block.offset, block.end, entries))
    return runs


def _sealed(block: Block) -> int:
    try:
        return decode_seal(block.payload).last_sequence
    except msgspec.DecodeError:
        return 0
