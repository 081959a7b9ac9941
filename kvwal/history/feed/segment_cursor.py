"""Cursor over the segments of one log: reads the blocks behind a sequence, and goes on as the log grows.

Nothing is queued for the reader: a block is read from its file when it is asked for, so a slow reader costs one block of memory.
The log may belong to another process. Its files may be sealed, replaced by the next open, or removed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from kvwal.entry import Entry, count_entries
from kvwal.errors import CorruptLog
from kvwal.history.feed.segment_order import LOOKED_AT, SegmentStart, stamped_before, start_of
from kvwal.log.files.chain import check_belongs
from kvwal.log.files.format import (
    DURABLE,
    HEAD_BYTES,
    MAX_PAYLOAD,
    Block,
    BlockKind,
    Header,
    SnapshotHeader,
    block_size,
    decode_seal,
    find_blocks,
    unpack_block,
)
from kvwal.log.files.names import LogFile, log_folder
from kvwal.log.files.parts import open_snapshot
from kvwal.log.files.retired import end_of
from kvwal.log.reader import SegmentReader, entry_decoder, log_files
from kvwal.ports.disk import Disk
from kvwal_archive.layout import Place

_PART_BYTES = 1 << 20
_HEADER_BYTES = 64 << 10
_LOOKS = 10
"""How often a log whose files change under the cursor is looked up again."""

_SEARCH_EVERY = 512
"""Looks at one place of a file at which the file behind it is searched: 1, 2, 4 … 512, 1024, 1536 …"""

T = TypeVar("T")
Rows = list[tuple[int, Entry]]
"""Entries with their sequences."""


class NotInLog(Exception):
    """The next sequence is in no segment of the log: the segments begin with `first`. The archive may have it."""

    def __init__(self, first: int) -> None:
        super().__init__(first)
        self.first = first


class _Open(NamedTuple):
    """The segment being read: where its next block is, and the sequence of the first entry there."""

    path: Path
    header: Header
    offset: int
    following: int


class SegmentCursor:
    """A cursor behind the sequence `position` of one log. Used by one thread at a time.

    `acknowledged_only` is for the log of another process: only what its writer has acknowledged is given. If that writer syncs
    before it acknowledges, a block that this process has not seen to be durable is made durable before it is given, or held back
    if this process may not do that. A writer that acknowledges before a sync (`Header.unsynced`) is made to sync nothing.
    """

    def __init__(self, disk: Disk, root: Path, place: Place, position: int, *, acknowledged_only: bool) -> None:
        self.position = position
        self._disk = disk
        self._root = root
        self._folder = log_folder(root, place)
        self._place = place
        self._acknowledged_only = acknowledged_only
        self._decode = entry_decoder()
        self._segment: _Open | None = None
        self._part, self._part_start = b"", 0
        self._durable_to = 0
        self._looks = 0
        self._searches_always = False

    def read(self, until: int | None = None) -> Rows:
        """The rows of the next block, none if the log has no further one yet, or none up to the sequence `until`.

        Raises `NotInLog` if the segments begin behind the next sequence, `CorruptLog`.
        """
        return self._looked_up(lambda: self._read(until))

    def _looked_up(self, read: Callable[[], T]) -> T:
        """The result of `read`, which is called again if a file was removed or replaced meanwhile."""
        for _ in range(_LOOKS):
            try:
                return read()
            except FileNotFoundError:
                self._segment = None
        return read()

    def reset(self) -> None:
        """Look the next sequence up again, after `position` was set."""
        self._segment = None

    def at_or_before(self, timestamp: int) -> int | None:
        """The sequence before the first entry behind `timestamp`, in any log; older entries may follow it. None if the segments
        do not reach back so far."""
        return self._looked_up(lambda: self._at_or_before(timestamp))

    def _at_or_before(self, timestamp: int) -> int | None:
        segments, snapshots = log_files(self._disk, self._folder)
        number = stamped_before(map(self._start_of, reversed(segments)), timestamp)
        if number is not None:
            return self._before_first(segments[-1 - number :], timestamp)
        if segments and segments[0].number == 1:
            return self._before_first(segments, timestamp)
        snapshot = open_snapshot(self._disk, self._folder, snapshots)
        end = snapshot.header if snapshot is not None else None if segments or snapshots else self._retired()
        if end is None:
            return None if segments else 0
        if end.last_timestamp > timestamp:
            return None
        return self._before_first(segments, timestamp) if segments else end.last_sequence

    def _before_first(self, files: Sequence[LogFile], timestamp: int) -> int:
        """The sequence before the first entry of these segments behind `timestamp`; the last sequence if there is none."""
        for file in files:
            self._open(file)
            while (block := self._next_block()) is not None and block.kind is BlockKind.ENTRIES:
                entries = self._decoded(block)
                if max(entry.timestamp for entry in entries) > timestamp:
                    older = takewhile(lambda entry: entry.timestamp <= timestamp, entries)
                    return self._opened().following + sum(1 for _ in older) - 1
                self._pass(block, len(entries))
        return self._opened().following - 1

    def last_sequence(self) -> int:
        """The last sequence of the log, as its files are now."""
        return self._looked_up(self._last_sequence)

    def _last_sequence(self) -> int:
        segments, snapshots = log_files(self._disk, self._folder)
        if not segments:
            if snapshots:
                return snapshots[-1].number
            return 0 if (end := self._retired()) is None else end.last_sequence
        self._open(segments[-1])
        while (block := self._next_block()) is not None and block.kind is BlockKind.ENTRIES:
            self._pass(block, count_entries(block.payload))
        return 0 if self._segment is None else self._segment.following - 1

    def acknowledged_end(self) -> int:
        """The last sequence that the log's writer acknowledged, as the files are now. Reads on where the last call ended.

        The position becomes that sequence. Raises `NotInLog`, `CorruptLog`.
        """
        self._searches_always = True
        while self.read():
            pass
        return self.position

    def _read(self, until: int | None) -> Rows:
        if self._segment is None and not self._find():
            return []
        while (segment := self._segment) is not None:
            if until is not None and segment.following > until:
                return []
            block = self._next_block() or self._fresh_block()
            if block is None:
                if not self._replaced():
                    if until is not None:
                        raise self._corrupt("the block here does not verify, and its entries were acknowledged.")
                    return []
            elif block.kind is BlockKind.SEAL:
                if not self._next_segment(self._sealed_at(block)):
                    return []
            elif block.kind is not BlockKind.ENTRIES:
                raise self._corrupt(f"a block of kind {block.kind.name} does not belong here.")
            elif segment.following + (count := self._counted(block)) - 1 <= self.position:
                self._pass(block, count)
            else:
                return self._taken(block)
        return []

    def _taken(self, block: Block) -> Rows:
        segment = self._opened()
        if self._acknowledged_only and not self._is_acknowledged(block):
            return []
        entries = self._decoded(block)
        rows = [(n, entry) for n, entry in enumerate(entries, segment.following) if n > self.position]
        self._pass(block, len(entries))
        self.position = rows[-1][0]
        return rows

    def _find(self) -> bool:
        """Open the segment with the next sequence. False if the log has not come so far."""
        segments, snapshots = log_files(self._disk, self._folder)
        wanted = self.position + 1
        there = [file for file in segments if file.number <= wanted]
        if there:
            self._open(there[-1])
            return True
        if segments:
            raise NotInLog(segments[0].number)
        if snapshots and snapshots[-1].number >= wanted:
            raise NotInLog(snapshots[-1].number + 1)
        if not snapshots and (end := self._retired()) is not None and end.last_sequence >= wanted:
            raise NotInLog(end.last_sequence + 1)
        return False

    def _retired(self) -> SnapshotHeader | None:
        """The end of a log whose folder is gone because its map was destroyed; None if it is not retired."""
        end = end_of(self._disk, self._root, self._place)
        if end is None and any(log_files(self._disk, self._folder)):
            raise FileNotFoundError("the log was brought back since its files were looked up")
        return end

    def _open(self, file: LogFile) -> None:
        path = self._folder / file.name
        reader = SegmentReader(path, self._disk.read_part(path, 0, _HEADER_BYTES))
        check_belongs(reader.header, self._place, self._folder)
        self._segment = _Open(path, reader.header, reader.start, reader.header.first_sequence)
        self._part, self._part_start, self._durable_to = b"", 0, 0
        self._looks = 0

    def _next_segment(self, following: int) -> bool:
        """Go on behind a sealed segment. False if the next one is not there yet."""
        self.position = max(self.position, following - 1)
        segments = log_files(self._disk, self._folder)[0]
        later = [file for file in segments if file.number >= following]
        if not later:
            return False
        if later[0].number > following:
            raise NotInLog(later[0].number)
        self._open(later[0])
        return True

    def _replaced(self) -> bool:
        """Whether the bytes at the cursor belong to another file than before, which is open now: the next open of a log replaces
        a segment without entries, and the copy of a segment that was not sealed has the same blocks.
        """
        segment = self._opened()
        head = self._disk.read_part(segment.path, 0, _HEADER_BYTES)
        reader = SegmentReader(segment.path, head)
        if reader.header.salt != segment.header.salt:
            self._segment = None
            return self._find()
        self._looks += 1
        if self._searches_now() and any(self._disk.read_part(segment.path, segment.offset, HEAD_BYTES)):
            self._check_unread()
        return False

    def _searches_now(self) -> bool:
        """Whether to search the file for later blocks. Behind a torn block each search reads all of it."""
        looks = self._looks
        return self._searches_always or looks & (looks - 1) == 0 or looks % _SEARCH_EVERY == 0

    def _check_unread(self) -> None:
        """Raise `CorruptLog` if the block at the cursor was durable: it is no write that is under way, or was cut short."""
        segment = self._opened()
        data = self._disk.read(segment.path)
        if unpack_block(data, segment.offset, segment.header.salt) is not None:
            return  # it was written meanwhile
        if any(block.flags & DURABLE for block in find_blocks(data, segment.offset, segment.header.salt)):
            self._searches_always = True  # so that the next look tells it too
            raise self._corrupt("the block here does not verify, and a later block says that it was durable.")

    def _is_acknowledged(self, block: Block) -> bool:
        """Whether the block is as durable as the log's writer acknowledges it, now that this process has asked the disk for it if
        need be.
        """
        segment = self._opened()
        if segment.header.unsynced is True or block.end <= self._durable_to:
            return True
        later = self._block_at(block.end)
        if later is not None and later.flags & DURABLE:
            return True
        known = self._part_start + len(self._part)
        try:
            file = self._disk.open(segment.path)
        except PermissionError:
            self._part = b""  # so that the block after it is seen when it is written
            return False
        try:
            file.datasync()
        finally:
            file.close()
        self._durable_to = known
        return True

    def _start_of(self, file: LogFile) -> SegmentStart | None:
        """The beginning of a segment, None if it has no entry."""
        blocks: list[list[Entry]] = []
        try:
            self._open(file)
            while len(blocks) < LOOKED_AT and (block := self._next_block()) and block.kind is BlockKind.ENTRIES:
                blocks.append(self._decoded(block))
                self._pass(block, len(blocks[-1]))
            return start_of(self._opened().header, blocks)
        except FileNotFoundError:
            return None
        finally:
            self._segment = None

    def _next_block(self) -> Block | None:
        return self._block_at(self._opened().offset)

    def _fresh_block(self) -> Block | None:
        """The next block, read again: the bytes in memory may be older than the block."""
        self._part = b""
        return self._next_block()

    def _block_at(self, offset: int) -> Block | None:
        """The valid block at this offset, None if there is none."""
        size = int.from_bytes(self._bytes(offset, HEAD_BYTES)[:4], "little")
        if size > MAX_PAYLOAD:
            return None
        data = self._bytes(offset, block_size(size))
        return unpack_block(data, 0, self._opened().header.salt, base=offset)

    def _bytes(self, offset: int, size: int) -> bytes:
        begin = offset - self._part_start
        if begin < 0 or begin + size > len(self._part):
            path = self._opened().path
            self._part, self._part_start = self._disk.read_part(path, offset, max(size, _PART_BYTES)), offset
            begin = 0
        return self._part[begin : begin + size]

    def _pass(self, block: Block, count: int) -> None:
        segment = self._opened()
        self._segment = segment._replace(offset=block.end, following=segment.following + count)
        self._looks = 0

    def _sealed_at(self, block: Block) -> int:
        """The sequence behind the segment that this seal ends."""
        segment = self._opened()
        try:
            last = decode_seal(block.payload).last_sequence
        except msgspec.DecodeError as error:
            raise self._corrupt(f"the block verifies, but holds no seal ({error}).") from error
        if last != segment.following - 1:
            raise self._corrupt(f"the seal ends with sequence {last}, and the file with {segment.following - 1}.")
        return segment.following

    def _counted(self, block: Block) -> int:
        try:
            return count_entries(block.payload)
        except msgspec.DecodeError as error:
            raise self._corrupt(f"the block verifies, but holds no entries ({error}).") from error

    def _decoded(self, block: Block) -> list[Entry]:
        try:
            return self._decode(block.payload)
        except msgspec.DecodeError as error:
            raise self._corrupt(f"the block verifies, but holds no entries ({error}).") from error

    def _opened(self) -> _Open:
        if self._segment is None:
            raise FileNotFoundError("no segment is open")
        return self._segment

    def _corrupt(self, what: str) -> CorruptLog:
        segment = self._opened()
        return CorruptLog(what, path=segment.path, offset=segment.offset, sequence=segment.following)
