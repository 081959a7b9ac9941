"""Cursor over the segments of one log: reads the blocks after a sequence, and goes on as the log grows.

Nothing is queued for the reader: a block is read from its file when it is asked for, so a slow reader costs one block of memory.
The log may belong to another process. Its files may be sealed, replaced by the next open, or removed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import TypeVar

from kvwal.entry import Decode, Entry
from kvwal.history.feeds.segment_order import LOOKED_AT, SegmentStart, stamped_before, start_of
from kvwal.log.files.chain import check_belongs
from kvwal.log.files.format import DURABLE, HEAD_BYTES, Block, BlockKind, SnapshotHeader, unpack_block
from kvwal.log.files.names import LogFile, log_folder
from kvwal.log.files.retired import end_of
from kvwal.log.files.snapshot_reader import open_snapshot
from kvwal.log.overflow.read import overflow_of
from kvwal.log.reader import SegmentEnd, SegmentReader, Window, entry_decoder, log_files, read_header
from kvwal.ports.disk import Disk
from kvwal_archive.layout import Place

_LOOKS = 10
"""How often a log whose files change under the cursor is looked up again."""

_SEARCH_EVERY = 512
"""Looks at one place of a file at which the file after it is searched: 1, 2, 4 … 512, 1024, 1536 …"""

T = TypeVar("T")
Rows = list[tuple[int, Entry]]
"""Entries with their sequences."""


def _after(first: int, entries: list[Entry], position: int) -> Rows:
    """These entries, of which the first has the sequence `first`, without those up to the sequence `position`."""
    return [(n, entry) for n, entry in enumerate(entries, first) if n > position]


class NotInLog(Exception):
    """The next sequence is in no segment of the log: the segments begin with `first`. The archive may have it."""

    def __init__(self, first: int) -> None:
        super().__init__(first)
        self.first = first


class _GrowingSegment(SegmentReader):
    """Walk over a segment that may grow meanwhile.

    `durable` is `window.reads` as it was when this process synced the file. `looks` counts how often no block was found at `end`.
    """

    def __init__(self, disk: Disk, path: Path) -> None:
        self.window = Window(partial(disk.read_part, path))
        super().__init__(path, self.window, overflow=overflow_of(disk))
        self.durable = self.looks = 0
        self._left: Iterator[tuple[int, list[Entry]]] | None = None

    def fresh_block(self) -> Block | None:
        """As `next_block`. The file is read again where the bytes in memory, which may be older, have no block."""
        if (block := self.next_block()) is None and self.seal is None:
            self.window.forget()
            block = self.next_block()
        return block

    def advance(self, block: Block, count: int) -> None:
        """See `SegmentReader.advance`."""
        super().advance(block, count)
        self.looks = 0

    def next_rows(self, block: Block, decode: Decode, after: int) -> Rows:
        """The rows of the block at `end` with sequences after `after`, of which there are some. Those of an overflow file come
        one block of it at a time, at each call. The block is passed with its last rows.
        """
        if block.kind is BlockKind.OVERFLOW:
            return self._next_overflowed(block, decode, after)
        first, entries = self.next_sequence, self.decoded(decode, block)
        self.advance(block, len(entries))
        return _after(first, entries, after)

    def _next_overflowed(self, block: Block, decode: Decode, after: int) -> Rows:
        if self._left is None:
            self._left = self.overflowed(block, decode)
        rows: Rows = []
        while not rows and (part := next(self._left, None)) is not None:
            rows = _after(*part, after)
        count = self.count_of(block)
        if not rows or rows[-1][0] == self.next_sequence + count - 1:
            self._left = None
            self.advance(block, count)
        return rows


class SegmentCursor:
    """A cursor after the sequence `position` of one log. Used by one thread at a time.

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
        self._segment: _GrowingSegment | None = None
        self._searches_always = False

    def read(self, until: int | None = None) -> Rows:
        """The rows of the next block, none if the log has no further one yet, or none up to the sequence `until`.

        Raises `NotInLog` if the segments begin after the next sequence, `CorruptLog`.
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
        """The sequence before the first entry after `timestamp`, in any log; older entries may follow it. None if the segments
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
        """The sequence before the first entry of these segments after `timestamp`; the last sequence if there is none."""
        last = 0
        for file in files:
            segment = self._open(file)
            for first, entries in segment.numbered(self._decode):
                if max(entry.timestamp for entry in entries) > timestamp:
                    older = takewhile(lambda entry: entry.timestamp <= timestamp, entries)
                    return first + sum(1 for _ in older) - 1
            last = segment.next_sequence - 1
        return last

    def last_sequence(self) -> int:
        """The last sequence of the log, as its files are now."""
        return self._looked_up(self._last_sequence)

    def _last_sequence(self) -> int:
        segments, snapshots = log_files(self._disk, self._folder)
        if not segments:
            if snapshots:
                return snapshots[-1].number
            return 0 if (end := self._retired()) is None else end.last_sequence
        segment = self._open(segments[-1])
        while (block := segment.next_block()) is not None:
            segment.advance(block, segment.count_of(block))
        return segment.next_sequence - 1

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
            if until is not None and segment.next_sequence > until:
                return []
            block = segment.fresh_block()
            if block is not None:
                count = segment.count_of(block)
                if segment.next_sequence + count - 1 > self.position:
                    return self._taken(segment, block)
                segment.advance(block, count)
            elif segment.seal is not None:
                if not self._next_segment(segment.next_sequence):
                    return []
            elif not self._replaced(segment):
                if until is not None:
                    raise segment.corrupt("the block here does not verify, and its entries were acknowledged.")
                return []
        return []

    def _taken(self, segment: _GrowingSegment, block: Block) -> Rows:
        if self._acknowledged_only and not self._is_acknowledged(segment, block):
            return []
        rows = segment.next_rows(block, self._decode, self.position)
        self.position = rows[-1][0]
        return rows

    def _find(self) -> bool:
        """Open the segment with the next sequence. False if the log has not come so far."""
        segments, snapshots = log_files(self._disk, self._folder)
        wanted = self.position + 1
        there = [file for file in segments if file.number <= wanted]
        if there:
            self._segment = self._open(there[-1])
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

    def _open(self, file: LogFile) -> _GrowingSegment:
        segment = _GrowingSegment(self._disk, self._folder / file.name)
        check_belongs(segment.header, self._place, self._folder)
        return segment

    def _next_segment(self, following: int) -> bool:
        """Go on after a sealed segment. False if the next one is not there yet."""
        self.position = max(self.position, following - 1)
        segments = log_files(self._disk, self._folder)[0]
        later = [file for file in segments if file.number >= following]
        if not later:
            return False
        if later[0].number > following:
            raise NotInLog(later[0].number)
        self._segment = self._open(later[0])
        return True

    def _replaced(self, segment: _GrowingSegment) -> bool:
        """Whether the bytes at the cursor belong to another file than before, which is open now: the next open of a log replaces
        a segment without entries, and the copy of a segment that was not sealed has the same blocks.
        """
        if read_header(self._disk, segment.path).salt != segment.header.salt:
            self._segment = None
            return self._find()
        segment.looks += 1
        if self._searches_now(segment.looks) and any(self._disk.read_part(segment.path, segment.end, HEAD_BYTES)):
            self._check_unread(segment)
        return False

    def _searches_now(self, looks: int) -> bool:
        """Whether to search the file for later blocks. After a torn block each search reads all of it."""
        return self._searches_always or looks & (looks - 1) == 0 or looks % _SEARCH_EVERY == 0

    def _check_unread(self, segment: _GrowingSegment) -> None:
        """Raise `CorruptLog` if the block at the cursor was durable: it is no write that is under way, or was cut short."""
        data = self._disk.read(segment.path)
        if unpack_block(data, segment.end, segment.header.salt) is not None:
            return  # it was written meanwhile
        if segment.ending(data, last=True) is SegmentEnd.DAMAGED:
            self._searches_always = True  # so that the next look tells it too
            raise segment.damage()

    def _is_acknowledged(self, segment: _GrowingSegment, block: Block) -> bool:
        """Whether the block is as durable as the log's writer acknowledges it, now that this process has asked the disk for it if
        need be.
        """
        if segment.header.unsynced is True or segment.window.reads == segment.durable:
            return True
        later = segment.block_at(block.end)
        if later is not None and later.flags & DURABLE:
            return True
        try:
            file = self._disk.open(segment.path)
        except PermissionError:
            segment.window.forget()  # so that the block after it is seen when it is written
            return False
        try:
            file.datasync()
        finally:
            file.close()
        segment.durable = segment.window.reads  # what is read later may have been written since
        return True

    def _start_of(self, file: LogFile) -> SegmentStart | None:
        """The beginning of a segment, None if it has no entry."""
        try:
            segment = self._open(file)
            return start_of(segment.header, list(islice(segment.entries(self._decode), LOOKED_AT)))
        except FileNotFoundError:
            return None
