"""Readers of segments and snapshots: they return checked blocks in order and classify the bytes after the last valid block.

This module imports neither asyncio nor Arrow, so that `kvwal get` starts fast.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

import msgspec

from kvwal.codecs import registry
from kvwal.entry import Decode, Entry, count_entries, entry_identity, make_decoder
from kvwal.errors import CorruptLog, NewerVersion
from kvwal.log.files.format import (
    DURABLE,
    HEAD_BYTES,
    MAX_PAYLOAD,
    NOT_KNOWN,
    Block,
    BlockKind,
    Header,
    Seal,
    SnapshotHeader,
    align,
    block_size,
    decode_seal,
    find_blocks,
    unpack_block,
    unpack_header,
    unpack_snapshot_header,
)
from kvwal.log.files.names import FileKind, LogFile, parse_name
from kvwal.ports.disk import Buffer, Disk

T = TypeVar("T")
_PART_BYTES = 1 << 20
"""Bytes of a snapshot that are read at a time, unless a block is larger."""
_NEAR_BYTES = 8 << 10
"""A search ends with so many bytes, whose blocks are decoded one by one. A compressed block of 1,000 entries may be so small."""

Progress = Callable[[int, int, str], None]
"""Progress callback: bytes done, bytes in all, and the name of the step."""


class SegmentEnd(Enum):
    """State of a segment after its last valid block: sealed, torn by a crash, or damaged."""

    SEALED = "sealed"
    TORN = "torn"
    DAMAGED = "damaged"


def entry_decoder() -> Decode:
    """A decoder for entries blocks. It is fastest for the codecs that are registered now."""
    return make_decoder(registry.names())


class SegmentReader:
    """Reader of one segment or snapshot, from its first block to its last valid one.

    `header` is read at once. A file without a valid header is `CorruptLog`, because a segment gets its name only after its header
    is durable. After the last item of `entries`, `end` is the offset after the last valid block, `count` is the number of entries
    before it, and `seal`/`seal_crc` are set if the file is sealed.
    """

    def __init__(self, path: Path, buffer: Buffer, *, snapshot: bool = False) -> None:
        self.path = path
        self._buffer = buffer
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
        self.count = 0
        self.seal: Seal | None = None
        self.seal_crc = 0

    @property
    def next_sequence(self) -> int:
        """The sequence of the entry after the last valid block."""
        return self.header.first_sequence + self.count

    def blocks(self) -> Iterator[Block]:
        """Entries blocks in order, up to the seal or the first invalid block. `CorruptLog` if the seal does not match."""
        while (block := self._block()) is not None:
            if block.kind is BlockKind.SEAL:
                self._check_seal(block, self._decode_seal(block))
                return
            if block.kind is not BlockKind.ENTRIES:
                raise self._corrupt(f"a block of kind {block.kind.name} does not belong here.", block.offset)
            self.end = block.end
            yield block

    def _block(self) -> Block | None:
        """The block at `end`, None if it is not valid. An overflow block is `NewerVersion`: this version writes none."""
        try:
            block = self._unpack(self.end)
            if block is not None and block.kind is BlockKind.OVERFLOW:
                raise NewerVersion(
                    f"the block at byte {self.end} refers to an overflow file: written by a newer version.",
                    hint="Open it with that version.",
                )
        except NewerVersion as error:
            raise _newer(self.path, error) from error
        return block

    def _unpack(self, offset: int) -> Block | None:
        return unpack_block(self._buffer, offset, self.header.salt)

    def entries(self, decode: Decode) -> Iterator[list[Entry]]:
        """The entries of each block."""
        for _, entries in self.numbered(decode):
            yield entries

    def numbered(self, decode: Decode, holding: Sequence[bytes] = ()) -> Iterator[tuple[int, list[Entry]]]:
        """The entries of each block, with the sequence of the first one. With `holding`, only blocks with any of these bytes."""
        for block in self.blocks():
            first = self.next_sequence
            if holding and not any(part in block.payload for part in holding):
                self.count += self._decoded(count_entries, block)
                continue
            entries = self._decoded(decode, block)
            self.count += len(entries)
            yield first, entries

    def _decoded(self, decode: Callable[[bytes], T], block: Block) -> T:
        try:
            return decode(block.payload)
        except msgspec.DecodeError as error:
            raise self._corrupt(f"the block verifies, but holds no entries ({error}).", block.offset) from error

    def ending(self) -> SegmentEnd:
        """The state of the file after `end`. Call it after the last item of `entries`.

        Damaged: a later block verifies and says that everything before it was durable. Torn: anything else that is not sealed,
        which is what a crash leaves.
        """
        if self.seal is not None:
            return SegmentEnd.SEALED
        later = find_blocks(self._buffer, self.end, self.header.salt)
        return SegmentEnd.DAMAGED if any(block.flags & DURABLE for block in later) else SegmentEnd.TORN

    def torn_bytes(self) -> int:
        """Bytes after `end` that may belong to a torn group: 0 if the end mark is there and no later block verifies."""
        marked = not any(self._buffer[self.end : self.end + HEAD_BYTES])
        if marked and next(find_blocks(self._buffer, self.end, self.header.salt), None) is None:
            return 0
        return len(bytes(self._buffer[self.end :]).rstrip(b"\x00"))

    def damage(self) -> CorruptLog:
        """The error for a file with an invalid block before its seal."""
        return self._corrupt("the block here does not verify, and a later block says that it was durable.", self.end)

    def _decode_seal(self, block: Block) -> Seal:
        try:
            return decode_seal(block.payload)
        except msgspec.DecodeError as error:
            raise self._corrupt(f"the block verifies, but holds no seal ({error}).", block.offset) from error

    def _check_seal(self, block: Block, seal: Seal) -> None:
        last = self.header.first_sequence + self.count - 1
        if (seal.entries, seal.bytes) != (self.count, block.offset) or seal.last_sequence != last:
            raise self._corrupt(
                f"the seal counts {seal.entries} entries up to {seal.last_sequence}, and the file has {self.count} up to {last}.",
                block.offset,
            )
        self.seal, self.seal_crc = seal, block.crc

    def _corrupt(self, what: str, offset: int) -> CorruptLog:
        return CorruptLog(what, path=self.path, offset=offset, sequence=self.next_sequence)


class SnapshotReader(SegmentReader):
    """Reader of one part of a snapshot. Its entries are sorted by identity; its header says where the log continues."""

    header: SnapshotHeader

    def __init__(self, path: Path, buffer: Buffer) -> None:
        super().__init__(path, buffer, snapshot=True)

    def _check_seal(self, block: Block, seal: Seal) -> None:
        if (seal.entries, seal.bytes, seal.last_sequence) != (self.count, block.offset, self.header.last_sequence):
            raise self._corrupt("the seal does not match the entries of the snapshot.", block.offset)
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
            raise self._corrupt("the snapshot is not complete: a block does not verify.", self.end)


class SnapshotSearch(SnapshotReader):
    """Reader of one part of a snapshot of any size, of which it reads one piece at a time, and finds ranges of identities."""

    def __init__(self, path: Path, size: int, read: Callable[[int, int], bytes]) -> None:
        """`read` gives the bytes from an offset on: so many, or fewer if the file of `size` bytes ends before."""
        self._size = size
        self._read = read
        self._part, self._part_start = read(0, _PART_BYTES), 0
        super().__init__(path, self._part)

    def find(self, decode: Decode, identity: tuple[str, bytes]) -> Entry | None:
        """The entry of one identity, None if there is none. A binary search: only a few blocks are read and checked."""
        entry = next(self._from(decode, identity), None)
        return entry if entry is not None and entry_identity(entry) == identity else None

    def between(self, decode: Decode, low: tuple[str, bytes], high: tuple[str, bytes]) -> Iterator[Entry]:
        """The entries with identities from `low` to before `high`, sorted. Other blocks are not read, but a few."""
        return takewhile(lambda entry: entry_identity(entry) < high, self._from(decode, low))

    def between_at_start(self, decode: Decode, low: tuple[str, bytes], high: tuple[str, bytes]) -> Iterator[Entry]:
        """`between`, for a range that mostly comes before all entries: then one block is read, and no other."""
        self.end = self.start
        block = self._block()
        if block is None or block.kind is not BlockKind.ENTRIES:
            return self.between(decode, low, high)
        begins_behind = entry_identity(self._decoded(decode, block)[0]) >= high
        return iter(()) if begins_behind else self.between(decode, low, high)

    def _from(self, decode: Decode, identity: tuple[str, bytes]) -> Iterator[Entry]:
        """The entries from an identity on, up to the seal. `CorruptLog` for a block that does not verify."""
        self.end = self._search(decode, identity)
        while (block := self._block()) is not None:
            if block.kind is not BlockKind.ENTRIES:
                return
            entries = self._decoded(decode, block)
            self.end = block.end
            if entry_identity(entries[-1]) >= identity:
                yield from entries[bisect_left(entries, identity, key=entry_identity) :]
        raise self._corrupt("the snapshot is not complete: a block does not verify.", self.end)

    def _search(self, decode: Decode, identity: tuple[str, bytes]) -> int:
        """The offset of a block that is at or before the place of an identity, and near to it."""
        low, high = self.start, self._size
        while high - low > _NEAR_BYTES:
            middle = align((low + high) // 2)
            block = self._block_after(middle, high)
            if block is None:
                break  # few blocks are left
            if block.kind is not BlockKind.ENTRIES or entry_identity(self._decoded(decode, block)[0]) > identity:
                high = middle
            else:
                low = block.offset
        return low

    def _block_after(self, offset: int, limit: int) -> Block | None:
        """The first valid block after `offset` that ends before `limit`, None if there is none."""
        size = 0
        while offset + size < limit:
            size = min(max(2 * size, _PART_BYTES), limit - offset)
            block = next(find_blocks(self._bytes(offset, size), 0, self.header.salt, base=offset), None)
            if block is not None:
                return block
        return None

    def _unpack(self, offset: int) -> Block | None:
        size = block_size(int.from_bytes(self._bytes(offset, HEAD_BYTES)[:4], "little"))
        if size > block_size(MAX_PAYLOAD):
            return None
        return unpack_block(self._bytes(offset, size), 0, self.header.salt, base=offset)

    def _bytes(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes of the file from `offset`. Reads larger pieces and keeps the last one."""
        begin = offset - self._part_start
        if begin < 0 or begin + size > len(self._part):
            self._part, self._part_start = self._read(offset, max(size, _PART_BYTES)), offset
            begin = 0
        return self._part[begin : begin + size]


class SnapshotFile(SnapshotSearch):
    """A part of a snapshot, read from its file."""

    def __init__(self, disk: Disk, path: Path) -> None:
        super().__init__(path, disk.size(path), lambda offset, size: disk.read_part(path, offset, size))


class SnapshotView(SnapshotSearch):
    """A part of a snapshot whose file is held open, and may have been removed."""

    def __init__(self, path: Path, view: Buffer) -> None:
        super().__init__(path, len(view), lambda offset, size: bytes(view[offset : offset + size]))


def _newer(path: Path, error: NewerVersion) -> NewerVersion:
    return NewerVersion(f"{path}: {error.what}", hint=error.hint)


def log_files(disk: Disk, folder: Path) -> tuple[list[LogFile], list[LogFile]]:
    """Segments and snapshots in a log's folder, each sorted by sequence. Of snapshots with the same end the widest comes last."""
    files = [parse_name(name) for name in disk.names(folder)]
    segments = [file for file in files if file.kind is FileKind.SEGMENT]
    snapshots = [file for file in files if file.kind is FileKind.SNAPSHOT]
    return segments, sorted(snapshots, key=lambda file: (file.number, -file.first))
