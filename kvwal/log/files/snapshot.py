"""Writing a snapshot: the latest entry of every identity, sorted, in the blocks of a segment.

A snapshot is never adopted half: it is `.partial` until it is whole and durable, and the one before stays until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kvwal.entry import encode_entries
from kvwal.log.files.format import NOT_KNOWN, Kind, Seal, SnapshotHeader, block_size, pack_block, pack_header, pack_seal
from kvwal.log.files.names import partial_name, snapshot_name
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk

BLOCK_ENTRIES = 1000
"""Entries in a block of a snapshot, unless they are large."""
BLOCK_BYTES = 1 << 20
"""Bytes of keys and values with which a block ends. The largest entry fits behind them: the limit of a block is far above."""
_WRITE_BYTES = 1 << 20
T = TypeVar("T")


def in_blocks(entries: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Entries, stored ones or tuples of the same values, as blocks that can be read back; `size` is that of key and value."""
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


def write_snapshot(
    disk: Disk,
    clock: Clock,
    folder: Path,
    header: SnapshotHeader,
    blocks: Iterable[Sequence[Any]],
    *,
    left_out: Callable[[], int] | None = None,
) -> Path:
    """Write entries (stored ones, or tuples of the same values), already sorted by identity, and return the durable file.

    Each item of `blocks` becomes one block. The header's salt and time are drawn here. `left_out` is asked when all are written:
    see `Seal`.
    """
    header = msgspec.structs.replace(header, salt=clock.random_bits(32), created_ms=clock.wall_ms())
    name = snapshot_name(header.last_sequence, header.first_sequence)
    # A name of its own: an archiver that outlived its killed parent may be writing the same snapshot at the same time.
    partial = folder / partial_name(f"{name}.{header.salt:08x}")
    file = disk.create(partial)
    try:
        parts = pack_header(header)
        start, position, count = 0, sum(map(len, parts)), 0
        for entries in blocks:
            payload = encode_entries(entries)
            parts += pack_block(Kind.ENTRIES, payload, salt=header.salt, offset=position)[0]
            position += block_size(len(payload))
            count += len(entries)
            if position - start >= _WRITE_BYTES:
                file.write_at(start, parts)
                start, parts = position, []
        known = left_out() if left_out is not None else NOT_KNOWN
        seal = Seal(last_sequence=header.last_sequence, entries=count, bytes=position, left_out=known)
        file.write_at(start, [*parts, *pack_seal(seal, salt=header.salt)[0]])
        file.datasync()
    except OSError:
        disk.unlink(partial)  # on a full disk it would stand in its own way at the next try
        raise
    finally:
        file.close()
    disk.rename(partial, folder / name)
    disk.sync_folder(folder)
    return folder / name
