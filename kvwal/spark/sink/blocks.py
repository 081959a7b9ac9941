"""Blocks of entries, which tasks leave for the driver: their bytes, and how they are put together to transactions. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import google_crc32c
import msgspec

from kvwal.codecs import registry
from kvwal.entry import Entry, encode_entries, make_decoder
from kvwal.errors import Kind, KvwalError
from kvwal.log.submission import cut, size_of

STAGED_BLOCK_BYTES = 2 << 20
"""Target size of a staged block, in bytes. A transaction takes whole blocks."""
INLINE_BYTES = 16 << 10
"""A task with at most this many bytes of rows sends them inside its commit message."""

_decode = make_decoder(registry.names())


class StagedRowsLost(KvwalError):
    """Rows that tasks had staged for the driver are missing or damaged."""

    kind = Kind.RETRY


class StagedBlock(msgspec.Struct, frozen=True, array_like=True):
    """Some rows of a task. They are staged under `name`, or in `data` if they are few.

    `size` is estimated by `kvwal.log.submission.size_of`.
    """

    name: str
    size: int
    checksum: int
    data: bytes = b""


def make_block(name: str, entries: list[Entry]) -> tuple[StagedBlock, bytes]:
    """A block of these entries, to be staged under `name`, and its bytes."""
    data = encode_entries(entries)
    return StagedBlock(name, size_of(entries), google_crc32c.value(data)), data


def entries_of(block: StagedBlock, data: bytes) -> list[Entry]:
    """The entries of a block, from its bytes. Raises StagedRowsLost if they are not those that were staged."""
    if google_crc32c.value(data) != block.checksum:
        raise lost(block.name, "is damaged")
    return _decode(data)


def lost(name: str, problem: str) -> StagedRowsLost:
    """The error of a block that cannot be read."""
    return StagedRowsLost(
        f"the staged rows {name} {problem}.",
        hint="Write again. Driver and workers need one staging place: a folder that both have, or the option 'staging'.",
    )


def split_rows(entries: Iterable[Entry], most: int) -> Iterator[list[Entry]]:
    """The entries in lists of up to `most` bytes, in order. An entry that is larger is a list of its own."""
    return cut(entries, most, lambda entry: size_of([entry]))


def in_transactions(blocks: Iterable[StagedBlock], most: int) -> list[list[StagedBlock]]:
    """The blocks as transactions of up to `most` bytes, in order. One transaction if all of them fit."""
    return list(cut(blocks, most, lambda block: block.size))


encode_plan = msgspec.msgpack.Encoder().encode
"""The transactions of a write, as the bytes of its manifest."""
_decode_plan = msgspec.msgpack.Decoder(list[list[StagedBlock]]).decode


def decode_plan(data: bytes) -> Sequence[list[StagedBlock]]:
    """The transactions of a write, from its manifest."""
    return _decode_plan(data)
