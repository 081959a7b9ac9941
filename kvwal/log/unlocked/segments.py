"""Walk over the segments of a log without its lock, one piece of a file at a time, also while their writer writes to them.

This module imports neither asyncio nor Arrow, so that `kvwal get` starts fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from kvwal.entry import Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.log.files.chain import check_belongs, link_problem
from kvwal.log.files.format import BlockKind, SnapshotHeader, unpack_block
from kvwal.log.files.names import LogFile
from kvwal.log.overflow.read import open_segment
from kvwal.log.reader import SegmentReader, Window
from kvwal.log.unlocked.endings import Endings
from kvwal.log.unlocked.known import KnownLog
from kvwal.log.unlocked.segment_keys import BlockPlace, IdentityRange, SegmentKeys
from kvwal.ports.disk import Disk, OpenedFile
from kvwal_archive.layout import Place

T = TypeVar("T")
_PIECE_BYTES = 1 << 20
_ZEROS = bytes(_PIECE_BYTES)


class _Opened(NamedTuple):
    """A segment that is open: its reader, the window of it that is in memory, and its file."""

    reader: SegmentReader
    window: Window
    file: OpenedFile


class SegmentWalk:
    """Walk over the segments of one log. Raises `FileNotFoundError` for a file that vanished, `CorruptLog`."""

    def __init__(self, disk: Disk, folder: Path, place: Place, decode: Decode, endings: Endings | None) -> None:
        """`endings` are those of a reader that stays open, None for one that looks once."""
        self._disk = disk
        self._folder = folder
        self._place = place
        self._decode = decode
        self._endings = endings

    def blocks(
        self, files: Sequence[LogFile], snapshot: SnapshotHeader | None, holding: Sequence[bytes], passed: int
    ) -> Iterator[tuple[SegmentReader, int, list[Entry]]]:
        """The blocks of these segments with sequences after `passed`: the reader, the first sequence and the entries of each.

        At the end of each segment comes a block without entries. If `holding` has any bytes, blocks without any of these are
        skipped. `snapshot` is the header of the snapshot before the segments. Raises `CorruptLog` for a missing segment too.
        """
        wanted, crc = _following(snapshot)
        ends = [later.number - 1 for later in files[1:]]
        needed = sum(end <= passed for end in ends)
        for index, file in enumerate(files[needed:]):
            with self._open(file) as opened:
                reader = opened.reader
                if index or (file.number >= wanted and not needed):
                    _check_link(reader, wanted, crc)
                numbered = partial(reader.numbered, self._decode, holding)
                for at, entries in self._to_end(opened, numbered, last=file is files[-1]):
                    yield reader, at, entries
            yield reader, reader.next_sequence, []
            wanted, crc = reader.next_sequence, reader.seal_crc

    def within(
        self,
        files: Sequence[LogFile],
        snapshot: SnapshotHeader | None,
        ranges: Sequence[IdentityRange],
        holding: Sequence[bytes],
        known: KnownLog,
    ) -> Iterator[list[Entry]]:
        """The entries of those blocks that may have the latest entries of identities of these ranges, in the order of the log.

        If `holding` has any bytes, blocks without any of these are skipped. All segments come after `snapshot`. Blocks that are
        not known yet are read, all others are not. Raises `CorruptLog` as `blocks`, but damage of a block that was read before is
        found when it is read again.
        """
        wanted, crc = _following(snapshot)
        for file in files:
            with self._open(file) as opened:
                _check_link(opened.reader, wanted, crc)
                with known.lock:
                    keys = known.segment(opened.reader)
                    self._learn(keys, opened, last=file is files[-1])
                    places = keys.blocks(ranges)
                    wanted, crc = opened.reader.header.first_sequence + keys.count, keys.last.crc if keys.last else 0
                for place in places:
                    yield from self._of_block(opened.reader, place, holding)

    def _learn(self, keys: SegmentKeys, opened: _Opened, *, last: bool) -> None:
        """Note the keys of all blocks after those that are known."""
        reader = opened.reader
        reader.end, reader.count = keys.end, keys.count
        if keys.is_sealed:
            return
        for _ in self._to_end(opened, lambda: self._noted(keys, reader), last=last):
            pass
        keys.settle(seal=None if reader.seal is None else reader.block_at(reader.end))

    def _noted(self, keys: SegmentKeys, reader: SegmentReader) -> Iterator[None]:
        while (block := reader.next_block()) is not None:
            if block.kind is BlockKind.OVERFLOW:
                found = chain.from_iterable(entries for _, entries in reader.overflowed(block, self._decode))
                keys.add(block, found, count := reader.count_of(block))
            else:
                entries = reader.decoded(self._decode, block)
                keys.add(block, entries, count := len(entries))
            reader.advance(block, count)
            yield

    def _of_block(self, reader: SegmentReader, place: BlockPlace, holding: Sequence[bytes]) -> Iterator[list[Entry]]:
        reader.end, reader.count = place
        block = reader.next_block()
        if block is None:
            raise reader.corrupt("the block here does not verify, and it did before.")
        if block.kind is BlockKind.OVERFLOW:
            yield from (entries for _, entries in reader.overflowed(block, self._decode, holding))
        elif not holding or any(part in block.payload for part in holding):
            yield reader.decoded(self._decode, block)

    @contextmanager
    def _open(self, file: LogFile) -> Iterator[_Opened]:
        path = self._folder / file.name
        opened = self._disk.open_to_read(path)
        try:
            window = Window(opened.read_at)
            reader = open_segment(self._disk, path, window)
            check_belongs(reader.header, self._place, self._folder)
            yield _Opened(reader, window, opened)
        finally:
            opened.close()

    def _to_end(self, opened: _Opened, walk: Callable[[], Iterator[T]], *, last: bool) -> Iterator[T]:
        """What `walk` gives of the blocks of a segment, and of those that are written meanwhile; then the check of its ending."""
        reader = opened.reader
        while True:
            yield from walk()
            if reader.seal is not None or not last:
                reader.check_ending(b"", last=last)
                return
            endings = self._endings
            state = endings.state(self._disk.changed_ns(reader.path)) if endings is not None else 0
            if endings is not None and endings.is_known(reader, state):
                return
            rest = _written_after(opened.file, reader.end)
            if unpack_block(rest, 0, reader.header.salt, base=reader.end) is None:
                break
            opened.window.forget()
        reader.check_ending(rest, last=True, base=reader.end)
        if endings is not None:
            endings.searched(reader, state)


def _following(snapshot: SnapshotHeader | None) -> tuple[int, int]:
    """The sequence after a snapshot, and the checksum of the seal before it."""
    return (snapshot.last_sequence + 1, snapshot.last_crc) if snapshot else (1, 0)


def _check_link(reader: SegmentReader, wanted: int, crc: int) -> None:
    """Raise `CorruptLog` if the segment does not begin with the sequence `wanted`, after the seal with this checksum."""
    wrong = link_problem(reader.header, wanted, crc)
    if wrong is not None:
        raise CorruptLog(wrong, path=reader.path, offset=0, sequence=wanted)


def _written_after(opened: OpenedFile, offset: int) -> bytes:
    """The bytes of a segment from `offset` on. None of them if all are zeros, which its writer has allocated for later."""
    pieces, is_written = [], False
    while piece := opened.read_at(offset, _PIECE_BYTES):
        is_zero = piece == _ZEROS[: len(piece)]
        is_written = is_written or not is_zero
        pieces.append(_ZEROS[: len(piece)] if is_zero else piece)  # the slice of all of it is no copy
        offset += len(piece)
    return b"".join(pieces) if is_written else b""
