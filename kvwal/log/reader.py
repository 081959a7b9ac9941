"""The walk over the blocks of a segment or snapshot: each whole block in order, then what stands after the last one.

Recovery, checkpoints, the archiver, change feeds, readers without the lock, `kvwal log verify` and `kvwal log repair` walk with
it. Each decides for itself what to do at an end that is torn or damaged.

This module imports neither asyncio nor Arrow, so that `kvwal get` starts fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from kvwal.codecs import registry
from kvwal.entry import Decode, Entry, count_entries, make_decoder
from kvwal.errors import CorruptLog, NewerVersion
from kvwal.log.files.format import (
    DURABLE,
    HEAD_BYTES,
    MAX_PAYLOAD,
    NOT_KNOWN,
    Block,
    BlockKind,
    Header,
    OverflowReference,
    Seal,
    SnapshotHeader,
    block_size,
    decode_overflow,
    decode_seal,
    find_blocks,
    unpack_block,
    unpack_header,
    unpack_snapshot_header,
)
from kvwal.log.files.names import FileKind, LogFile, overflow_number, parse_name
from kvwal.log.files.segment import SEAL_ROOM
from kvwal.ports.disk import Buffer, Disk, drop_pages

T = TypeVar("T")
_OF_ENTRIES = (BlockKind.ENTRIES, BlockKind.OVERFLOW)
READ_BYTES = 8 << 20
"""About how many bytes of a file that is streamed are in memory at a time."""
_PART_BYTES = 1 << 20
"""Bytes of a file that a `Window` reads at a time where it goes on, unless a block is larger."""
_FIRST_BYTES = 256 << 10
"""Bytes that it reads first at another place: a search looks at one block there, and goes elsewhere."""
_HEADER_BYTES = 64 << 10

Progress = Callable[[int, int, str], None]
"""Progress callback: bytes done, bytes in all, and the name of the step."""


ReadOverflow = Callable[[Path, Header, OverflowReference, Decode, Sequence[bytes]], Iterator[tuple[int, list[Entry]]]]
"""Reads the overflow file that a block of a segment names: given the segment's path and header, the entries of each block of the
file, and how many entries come before them. The last argument is `holding` of `SegmentReader.numbered`.
"""


class SegmentEnd(Enum):
    """State of a file after its last valid block.

    `OPEN`: nothing is torn, and the next group may follow. `TORN`: a crash tore a group, or one is being written. `DAMAGED`: what
    no crash leaves.
    """

    SEALED = "sealed"
    OPEN = "open"
    TORN = "torn"
    DAMAGED = "damaged"


class Window:
    """A file of any size, of which one piece at a time is in memory. `reads` counts the pieces that were read."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        """`read(offset, size)` gives `size` bytes of the file from `offset`, or fewer if the file ends there."""
        self._read = read
        self._size = min(_FIRST_BYTES, _PART_BYTES)
        self.piece, self._start = read(0, self._size), 0
        self.reads = 1

    def forget(self) -> None:
        """Drop the piece in memory: the file may have other bytes by now."""
        self.piece = b""

    def block(self, offset: int, salt: int) -> Block | None:
        """The block at `offset`, None if the bytes there do not verify."""
        length = int.from_bytes(self._bytes(offset, HEAD_BYTES)[:4], "little")
        if length > MAX_PAYLOAD:
            return None
        return unpack_block(self._bytes(offset, block_size(length)), 0, salt, base=offset)

    def find_block(self, offset: int, limit: int, salt: int) -> Block | None:
        """The first valid block at or after `offset` that ends before `limit`, None if there is none."""
        size = 0
        while offset + size < limit:
            size = min(max(2 * size, min(_FIRST_BYTES, _PART_BYTES)), limit - offset)
            block = next(find_blocks(self._bytes(offset, size), 0, salt, base=offset), None)
            if block is not None:
                return block
        return None

    def _bytes(self, offset: int, size: int) -> bytes:
        begin = offset - self._start
        if begin < 0 or begin + size > len(self.piece):
            goes_on = 0 < begin <= len(self.piece)
            self._size = min(2 * self._size if goes_on else _FIRST_BYTES, _PART_BYTES)
            self.piece, self._start = self._read(offset, max(size, self._size)), offset
            self.reads += 1
            begin = 0
        return self.piece[begin : begin + size]


def entry_decoder() -> Decode:
    """A decoder for entries blocks. It is fastest for the codecs that are registered now."""
    return make_decoder(registry.names())


class SegmentReader:
    """Walk over one segment or snapshot, from its first block to its last valid one.

    `header` is read at once. A file without a valid header is `CorruptLog`, because a segment gets its name only after its header
    is durable. `end` is the offset after the last block that was passed, `count` the number of entries before it. At the seal
    `seal` and `seal_crc` are set. After `ending`, `torn` is the number of bytes after `end` that may belong to a torn group.
    `overflows` are the references of the blocks that were passed.
    """

    def __init__(
        self,
        path: Path,
        source: Buffer | Window,
        *,
        overflow: ReadOverflow | None = None,
        snapshot: bool = False,
    ) -> None:
        """`source` has the bytes of the file. For the header alone its first bytes are enough. `overflow` reads the overflow
        files that its blocks name (`kvwal.log.overflow.read`).
        """
        self.path = path
        buffer = source.piece if isinstance(source, Window) else source
        try:
            unpacked = unpack_snapshot_header(buffer) if snapshot else unpack_header(buffer)
        except NewerVersion as error:
            raise _newer(path, error) from error
        except msgspec.DecodeError as error:
            raise CorruptLog(
                f"the header's checksum is right, but it is no header ({error}).", path=path, offset=0
            ) from error
        if unpacked is None:
            raise CorruptLog(
                "the header does not verify: this is no segment of kvwal, or it is damaged.", path=path, offset=0
            )
        self.header: Header | SnapshotHeader = unpacked[0]
        self.start = self.end = unpacked[1]
        self.count = self.torn = 0
        self.seal: Seal | None = None
        self.seal_crc = 0
        self.overflows: list[OverflowReference] = []
        self._overflow = overflow
        self._unpack = source.block if isinstance(source, Window) else partial(unpack_block, source)

    @property
    def next_sequence(self) -> int:
        """The sequence of the entry after the last block that was passed."""
        return self.header.first_sequence + self.count

    def next_block(self) -> Block | None:
        """The block of entries, or of an overflow file with them, at `end`. None at the seal, which is set then, and where no
        block verifies.

        Raises `CorruptLog` if the seal does not match what is before it, or if a block of another kind stands here.
        """
        block = self.block_at(self.end)
        if block is None or block.kind in _OF_ENTRIES:
            return block
        if block.kind is not BlockKind.SEAL:
            raise self.corrupt(f"a block of kind {block.kind.name} does not belong here.")
        self._check_seal(block, self._decode_seal(block))
        return None

    def advance(self, block: Block, count: int) -> None:
        """Pass the block at `end`, which has `count` entries."""
        self.end = block.end
        self.count += count
        if block.kind is BlockKind.OVERFLOW:
            self.overflows.append(self.reference(block))

    def block_at(self, offset: int) -> Block | None:
        """The valid block of any kind at `offset`, None if there is none."""
        try:
            return self._unpack(offset, self.header.salt)
        except NewerVersion as error:
            raise _newer(self.path, error) from error

    def entries(self, decode: Decode) -> Iterator[list[Entry]]:
        """The entries of each block, up to the seal or the first block that does not verify. Those of an overflow file come in
        several lists.
        """
        while (block := self.next_block()) is not None:
            if block.kind is BlockKind.OVERFLOW:
                yield from (entries for _, entries in self._overflowing(block, decode))
                continue
            entries = self.decoded(decode, block)
            self.advance(block, len(entries))
            yield entries

    def numbered(self, decode: Decode, holding: Sequence[bytes] = ()) -> Iterator[tuple[int, list[Entry]]]:
        """As `entries`, with the sequence of the first entry. With `holding`, only blocks with any of these bytes."""
        while (block := self.next_block()) is not None:
            if block.kind is BlockKind.OVERFLOW:
                yield from self._overflowing(block, decode, holding)
            elif holding and not any(part in block.payload for part in holding):
                self.advance(block, self.decoded(count_entries, block))
            else:
                first, entries = self.next_sequence, self.decoded(decode, block)
                self.advance(block, len(entries))
                yield first, entries

    def count_of(self, block: Block) -> int:
        """The number of entries of a block that `next_block` gave."""
        if block.kind is BlockKind.OVERFLOW:
            return self.reference(block).entries
        return self.decoded(count_entries, block)

    def reference(self, block: Block) -> OverflowReference:
        """What a block of an overflow file says. `CorruptLog` if it is of another shape, or no name of a file."""
        try:
            reference = decode_overflow(block.payload)
        except msgspec.DecodeError as error:
            raise self.corrupt(f"the block verifies, but names no overflow file ({error}).", block.offset) from error
        if overflow_number(reference.file) is None:
            raise self.corrupt(
                f"the block verifies, but {reference.file!r} is no name of an overflow file.", block.offset
            )
        return reference

    def overflowed(
        self, block: Block, decode: Decode, holding: Sequence[bytes] = ()
    ) -> Iterator[tuple[int, list[Entry]]]:
        """The entries of the overflow file that the block at `end` names, and the sequence of the first one of each list. With
        `holding`, only blocks with any of these bytes. Raises `CorruptLog`, after the last list at the latest.
        """
        if self._overflow is None:
            raise self.corrupt("a block names an overflow file, where none can be.", block.offset)
        first = self.next_sequence
        for before, entries in self._overflow(self.path, self.header, self.reference(block), decode, holding):
            yield first + before, entries

    def _overflowing(
        self, block: Block, decode: Decode, holding: Sequence[bytes] = ()
    ) -> Iterator[tuple[int, list[Entry]]]:
        """`overflowed`, and pass the block. `count` goes with the lists, as it does with blocks."""
        count = self.count
        for first, entries in self.overflowed(block, decode, holding):
            self.count = first + len(entries) - self.header.first_sequence
            yield first, entries
        self.count = count
        self.advance(block, self.count_of(block))

    def decoded(self, decode: Callable[[bytes], T], block: Block) -> T:
        """The content of an entries block. `CorruptLog` if it is of another shape."""
        try:
            return decode(block.payload)
        except msgspec.DecodeError as error:
            raise self.corrupt(f"the block verifies, but holds no entries ({error}).", block.offset) from error

    def skip_to_seal(self, buffer: Buffer) -> bool:
        """Pass the blocks before the seal unread: the seal has the number of their entries.

        Returns whether `buffer`, the bytes of the file, ends with a seal.
        """
        blocks = list(find_blocks(buffer, max(self.start, len(buffer) - SEAL_ROOM), self.header.salt))
        if not blocks or blocks[-1].kind is not BlockKind.SEAL:
            return False
        self.end, self.seal_crc = blocks[-1].offset, blocks[-1].crc
        self.seal = self._decode_seal(blocks[-1])
        self.count = self.seal.entries
        return True

    def ending(self, buffer: Buffer, *, last: bool, base: int = 0) -> SegmentEnd:
        """The state of the file after its last valid block, which was passed. `buffer` are its bytes from the offset `base` on.

        Damaged: a later block verifies and says that everything before it was durable; or the file is not sealed, and is not the
        `last` segment of its log. Open: the end mark is there, and no later block verifies. Torn: anything else.
        """
        if self.seal is not None:
            return SegmentEnd.SEALED
        if not last:
            return SegmentEnd.DAMAGED
        at = self.end - base
        durable = [block.flags & DURABLE for block in find_blocks(buffer, at, self.header.salt, base=base)]
        if any(durable):
            return SegmentEnd.DAMAGED
        if durable or any(buffer[at : at + HEAD_BYTES]):
            self.torn = len(bytes(buffer[at:]).rstrip(b"\x00"))
            return SegmentEnd.TORN
        return SegmentEnd.OPEN

    def check_ending(self, buffer: Buffer, *, last: bool, base: int = 0) -> SegmentEnd:
        """As `ending`. Raises `CorruptLog` for a damaged file."""
        ending = self.ending(buffer, last=last, base=base)
        if ending is SegmentEnd.DAMAGED:
            raise self.damage()
        return ending

    def damage(self) -> CorruptLog:
        """The error for a file with an invalid block before its seal."""
        return self.corrupt("the block here does not verify, and a later block says that it was durable.")

    def corrupt(self, what: str, offset: int | None = None) -> CorruptLog:
        """The error for damage at `offset` (None: at `end`)."""
        at = self.end if offset is None else offset
        return CorruptLog(what, path=self.path, offset=at, sequence=self.next_sequence)

    def _decode_seal(self, block: Block) -> Seal:
        try:
            return decode_seal(block.payload)
        except msgspec.DecodeError as error:
            raise self.corrupt(f"the block verifies, but holds no seal ({error}).") from error

    def _check_seal(self, block: Block, seal: Seal) -> None:
        last = self.next_sequence - 1
        if (seal.entries, seal.bytes) != (self.count, block.offset) or seal.last_sequence != last:
            raise self.corrupt(
                f"the seal counts {seal.entries} entries up to {seal.last_sequence}, and the file has {self.count} up to {last}."
            )
        self.seal, self.seal_crc = seal, block.crc


class SnapshotReader(SegmentReader):
    """Walk over one part of a snapshot. Its entries are sorted by identity; its header says where the log continues."""

    header: SnapshotHeader

    def __init__(self, path: Path, source: Buffer | Window) -> None:
        super().__init__(path, source, snapshot=True)

    def next_block(self) -> Block | None:
        """See `SegmentReader.next_block`. A snapshot names no overflow file."""
        block = super().next_block()
        if block is not None and block.kind is BlockKind.OVERFLOW:
            raise self.corrupt("a snapshot does not name overflow files.")
        return block

    def _check_seal(self, block: Block, seal: Seal) -> None:
        if (seal.entries, seal.bytes, seal.last_sequence) != (self.count, block.offset, self.header.last_sequence):
            raise self.corrupt("the seal does not match the entries of the snapshot.")
        self.seal, self.seal_crc = seal, block.crc

    @property
    def left_out(self) -> int:
        """`Seal.left_out`, or the snapshot's last timestamp if the seal does not say. Known after the whole part was read."""
        known = self.seal.left_out if self.seal is not None else NOT_KNOWN
        return self.header.last_timestamp if known == NOT_KNOWN else known

    def whole(self, decode: Decode) -> Iterator[list[Entry]]:
        """The entries of each block. `CorruptLog` if the file does not end with its seal."""
        yield from self.entries(decode)
        if self.seal is None:
            raise self.incomplete()

    def incomplete(self) -> CorruptLog:
        """The error for a part with an invalid block before its seal."""
        return self.corrupt("the snapshot is not complete: a block does not verify.")


def read_header(disk: Disk, path: Path) -> Header:
    """The header of a segment. `CorruptLog` if it does not verify."""
    return SegmentReader(path, disk.read_part(path, 0, _HEADER_BYTES)).header


def streamed(reader: SegmentReader, buffer: Buffer, blocks: Iterable[T]) -> Iterator[T]:
    """The items of `blocks`, which `reader` reads from the view `buffer`. The memory of the pages before it is freed."""
    before = 0
    for block in blocks:
        yield block
        if reader.end - before >= READ_BYTES:
            before = reader.end
            drop_pages(buffer, before)


def _newer(path: Path, error: NewerVersion) -> NewerVersion:
    return NewerVersion(f"{path}: {error.what}", hint=error.hint)


def log_files(disk: Disk, folder: Path) -> tuple[list[LogFile], list[LogFile]]:
    """Segments and snapshots in a log's folder, each sorted by sequence. Of snapshots with the same end the widest comes last."""
    files = [parse_name(name) for name in disk.names(folder)]
    segments = [file for file in files if file.kind is FileKind.SEGMENT]
    snapshots = [file for file in files if file.kind is FileKind.SNAPSHOT]
    return segments, sorted(snapshots, key=lambda file: (file.number, -file.first))
