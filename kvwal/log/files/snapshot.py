"""Snapshot writer: the latest entry of every identity, sorted by identity, in blocks of the segment format.

A snapshot has the name `*.partial` until it is complete and durable. The snapshot before it stays until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from kvwal.entry import Entry, encode_entries
from kvwal.log.files.atomic_file import atomic_file
from kvwal.log.files.compression import compress, decompress
from kvwal.log.files.format import (
    COMPRESSED,
    MAX_PAYLOAD,
    NOT_KNOWN,
    BlockKind,
    Seal,
    SnapshotHeader,
    block_size,
    pack_block,
    pack_header,
    pack_seal,
)
from kvwal.log.files.names import snapshot_name
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk

BLOCK_ENTRIES = 1000
"""Entries in a block of a snapshot, unless they are large."""
BLOCK_BYTES = 1 << 20
"""Bytes of keys and values after which a block ends. It may end with the largest entry: the format's limit is far higher."""
_WRITE_BYTES = 1 << 20
T = TypeVar("T")


def size_of(entry: Entry) -> int:
    """Bytes of an entry's key and value."""
    return len(entry.key) + len(entry.value)


def in_blocks(entries: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Split entries (stored entries, or tuples of the same values) into blocks of readable size. `size` returns the bytes of an
    entry's key and value.
    """
    block: list[T] = []
    filled = 0
    for entry in entries:
        block.append(entry)
        filled += size(entry)
        if len(block) >= BLOCK_ENTRIES or filled >= BLOCK_BYTES:
            yield block
            block, filled = [], 0
    if block:
        yield block


class Packed(NamedTuple):
    """The payload of an entries block as a snapshot stores it, compressed if that is worth it, and the block's flags."""

    payload: bytes
    flags: int

    @classmethod
    def of(cls, entries: Sequence[Any]) -> Packed:
        """These entries, packed. What is too long for a block stays as it is, and `pack_block` refuses it."""
        payload = encode_entries(entries)
        frame = compress(payload) if len(payload) <= MAX_PAYLOAD else None
        return cls(payload, 0) if frame is None else cls(frame, COMPRESSED)

    def unpacked(self) -> bytes:
        """The payload that was packed."""
        content = decompress(self.payload, MAX_PAYLOAD) if self.flags & COMPRESSED else self.payload
        assert content is not None, "a frame of this process's own"
        return content


def write_snapshot(
    disk: Disk,
    clock: Clock,
    folder: Path,
    header: SnapshotHeader,
    blocks: Iterable[Sequence[Any]],
    *,
    left_out: Callable[[], int] | None = None,
    format: Callable[[], int] | None = None,
) -> Path:
    """Write a snapshot and return the path of the durable file.

    Each item of `blocks` becomes one block. Its entries (stored entries, or tuples of the same values) are sorted by identity.
    The header's salt and creation time are set here. `left_out` (see `Seal`) and `format`, that of the file if it is not the
    header's, are called after the last block.
    """
    header = msgspec.structs.replace(header, salt=clock.random_bits(32), created_ms=clock.wall_ms())
    name = snapshot_name(header.last_sequence, header.first_sequence)
    # The salt is a tag: an archiver that outlived its killed parent may be writing the same snapshot at the same time.
    with atomic_file(disk, folder / name, tag=f"{header.salt:08x}") as file:
        parts = pack_header(header)
        start, position, count = 0, sum(map(len, parts)), 0
        for entries in blocks:
            payload, flags = Packed.of(entries)
            parts += pack_block(BlockKind.ENTRIES, payload, salt=header.salt, offset=position, flags=flags)[0]
            position += block_size(len(payload))
            count += len(entries)
            if position - start >= _WRITE_BYTES:
                file.write_at(start, parts)
                start, parts = position, []
        known = left_out() if left_out is not None else NOT_KNOWN
        seal = Seal(last_sequence=header.last_sequence, entries=count, bytes=position, left_out=known)
        file.write_at(start, [*parts, *pack_seal(seal, salt=header.salt)[0]])
        if format is not None and (needed := format()) != header.format:
            file.write_at(0, pack_header(msgspec.structs.replace(header, format=needed)))  # of the same length
    return folder / name
