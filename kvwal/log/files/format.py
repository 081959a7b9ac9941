"""Byte format of segments and snapshots. No other module reads or writes these bytes. docs/format/segment.md has the tables.

A file is a sequence of blocks, little-endian, each starting at a multiple of 8:

    length u32 · crc u32 · kind u8 · flags u8 · reserved u16 · payload (MessagePack), zeros to the next multiple of 8

The crc (CRC-32C) covers the file's salt and the block's offset first, so a block verifies only where it was written: stale
bytes of a recycled file never verify. Kind 0 is invalid, so zeros never parse.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple, Self

import google_crc32c
import msgspec

from kvwal.entry import DataEntry, Entry, is_claimed
from kvwal.errors import NewerVersion
from kvwal.key_class import CONTENT, PROVENANCE, QUEUE, kind_of, structure_of
from kvwal.log.files.compression import decompress
from kvwal.ports.disk import Buffer

FORMAT = 1
WITH_QUEUES = 2
"""The format of a file that may have entries of queues or of provenance, and in everything else format 1. A kvwal without them
would keep these entries and show them to nobody: it refuses the file instead. A file without them keeps format 1
(docs/decisions/0102).
"""
WITH_CONTENT = 3
"""The format of a file that may have entries of contents and of queues, and in everything else format 1. A kvwal without contents
would copy, merge and restore the entries without the bytes that they name (docs/decisions/0114).
"""
WITH_LARGE_VALUES = 4
"""The format of a file that may have entries of maps and queues whose value is a claim, and in everything else format 3. A kvwal
without them would show the claim as the value, and delete the claim file (docs/decisions/0115).
"""
NEWEST = WITH_LARGE_VALUES
"""The newest format: a file of it may have entries of any structure that this version knows."""
_LEAST_FORMAT = {QUEUE: WITH_QUEUES, PROVENANCE: WITH_QUEUES, CONTENT: WITH_CONTENT}
ALIGNMENT = 8
HEAD_BYTES = 12
MAX_PAYLOAD = 16 << 20
"""The longest payload of a block. A larger length is damage: nothing is allocated for it."""
DURABLE = 1
"""Flag: everything before this block in this log was fdatasynced before this block was written."""
COMPRESSED = 4
"""Flag of an entries block of a snapshot: its payload is a zstd frame in the file. In a `Block` it is decompressed."""

_HEAD = struct.Struct("<IIBBH")
_PLACE = struct.Struct("<IQ")
_ZEROS = bytes(ALIGNMENT)
_MANY_ZEROS = bytes(64 << 10)
_RESERVED_AT = HEAD_BYTES - 2
"""Where the reserved bytes stand in the head of a block."""
KIND_AND_FLAGS = rb"[\x01-\x04][\x00\x01\x04\x05]\x00\x00"
"""A pattern of the kind, the flags and the reserved bytes in the head of any block."""
_RESERVED = re.compile(rb"\x00\x00(?<=" + KIND_AND_FLAGS + rb")")
"""The reserved bytes of what can be a head, after its kind and flags.

Among entries a pattern that begins with plain bytes is found ten times faster than one that begins with the kinds. It matters:
a segment that is used again is full of old entries, and each reader of the log searches all of it.
"""


class BlockKind(IntEnum):
    """Kinds of blocks, by content."""

    HEADER = 1
    ENTRIES = 2
    OVERFLOW = 3
    SEAL = 4


_KNOWN_FLAGS = {int(kind): DURABLE for kind in BlockKind} | {int(BlockKind.ENTRIES): DURABLE | COMPRESSED}
"""The flags of the kinds that this version knows."""


class Header(msgspec.Struct, kw_only=True):
    """Payload of the first block of a segment."""

    format: int = FORMAT
    log_id: str
    namespace: str
    cluster: str
    business: str
    node: str
    epoch: int
    first_sequence: int
    previous_crc: int
    salt: int
    created_ms: int
    merged: bool | msgspec.UnsetType = msgspec.UNSET
    """A merge of nodes, or a repair, wrote the segment, with the timestamps that the entries had. Absent in all others."""
    unsynced: bool | msgspec.UnsetType = msgspec.UNSET
    """The segment's writer acknowledges an entry before it is durable: flush policy "os" or `Interval`. Absent in all others."""


class SnapshotHeader(Header, kw_only=True):
    """Payload of the first block of a snapshot: a header, and the position at which the log continues after the snapshot."""

    last_sequence: int
    last_crc: int
    last_timestamp: int


NOT_KNOWN = -1


class Seal(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Payload of the last block. The file has `entries` entries up to `last_sequence`, and `bytes` bytes before the seal.

    `left_out` is the greatest timestamp of a delete that this snapshot, or one before it, left out without checking whether
    other nodes have older entries of the key; 0 if there is none. The field is absent in segments and where it is not known.
    """

    last_sequence: int
    entries: int
    bytes: int
    left_out: int = NOT_KNOWN


class Block(NamedTuple):
    """A block that verified. `end` is the offset at which the next block starts. `payload` is decompressed."""

    offset: int
    kind: BlockKind
    flags: int
    payload: bytes
    crc: int
    end: int


class OverflowReference(msgspec.Struct, kw_only=True):
    """Payload of a block of kind 3: a transaction whose entries stand in a file of their own, in the folder `overflow`.

    The file has `bytes` bytes with the CRC-32C `crc`, and `entries` entries in blocks with the salt `salt`. They are read with
    the timestamp `timestamp`: the file is written before the transaction has its place in the log.
    """

    file: str
    bytes: int
    entries: int
    crc: int
    salt: int
    timestamp: int


class _FormatOnly(msgspec.Struct):
    format: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode_format = msgspec.msgpack.Decoder(_FormatOnly).decode
_decode_header = msgspec.msgpack.Decoder(Header).decode
_decode_snapshot = msgspec.msgpack.Decoder(SnapshotHeader).decode
decode_seal = msgspec.msgpack.Decoder(Seal).decode
"""Decode the payload of a block of kind 4."""
decode_overflow = msgspec.msgpack.Decoder(OverflowReference).decode
"""Decode the payload of a block of kind 3."""


def format_for(key_classes: Iterable[str]) -> int:
    """The format that a file with entries of these classes must have at least."""
    return max((_LEAST_FORMAT.get(kind_of(structure_of(name)), FORMAT) for name in key_classes), default=FORMAT)


def format_of(entries: Iterable[Entry | DataEntry]) -> int:
    """The format that a file with these entries must have at least."""
    key_classes: set[str] = set()
    value_classes: set[str] = set()
    for entry in entries:
        key_classes.add(entry.key_class)
        value_classes.add(entry.value_class)
    return format_for_values(format_for(key_classes), value_classes)


def format_for_values(least: int, value_classes: Iterable[str]) -> int:
    """The format that a file of format `least` must have at least, if it has values of these classes, too."""
    return WITH_LARGE_VALUES if any(map(is_claimed, value_classes)) else least


def align(offset: int) -> int:
    """The first multiple of 8 at or after `offset`."""
    return offset + -offset % ALIGNMENT


def block_size(payload: int) -> int:
    """Bytes in the file of a block with a payload of `payload` bytes."""
    return align(HEAD_BYTES + payload)


def checksum(salt: int, offset: int, head: bytes, payload: bytes) -> int:
    """CRC-32C of salt ‖ offset ‖ the head without its crc ‖ payload."""
    crc: int = google_crc32c.value(_PLACE.pack(salt, offset) + head[0:4] + head[8:12])
    return int(google_crc32c.extend(crc, payload))


def pack_block(kind: BlockKind, payload: bytes, *, salt: int, offset: int, flags: int = 0) -> tuple[list[bytes], int]:
    """The bytes of a block, as parts to write one after the other at `offset`, and its crc.

    `ValueError` if the payload is longer than `MAX_PAYLOAD`: no reader would accept the block.
    """
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"a block of {len(payload)} bytes is above the format's {MAX_PAYLOAD}")
    head = _HEAD.pack(len(payload), 0, kind, flags, 0)
    crc = checksum(salt, offset, head, payload)
    head = _HEAD.pack(len(payload), crc, kind, flags, 0)
    return [head, payload, _ZEROS[: -(HEAD_BYTES + len(payload)) % ALIGNMENT]], crc


class OverflowPayload(bytes):
    """The payload of a block of kind 3, among the payloads of a group. `overflowed` are the bytes of the file that it names."""

    overflowed: int

    @classmethod
    def of(cls, reference: OverflowReference) -> Self:
        """Encode a reference."""
        payload = cls(_encode(reference))
        payload.overflowed = reference.bytes
        return payload


def pack_header(header: Header) -> list[bytes]:
    """The first block of a file. Its own salt is 0, because it holds the salt of the other blocks."""
    fields = msgspec.to_builtins(header)  # without absent fields: of a struct the encoder would count them, too
    return pack_block(BlockKind.HEADER, _encode(fields), salt=0, offset=0)[0]


def pack_seal(seal: Seal, *, salt: int) -> tuple[list[bytes], int]:
    """The last block of a file, at `seal.bytes`, and its crc. Everything before it has to be durable already."""
    return pack_block(BlockKind.SEAL, _encode(seal), salt=salt, offset=seal.bytes, flags=DURABLE)


def unpack_block(buffer: Buffer, offset: int, salt: int, *, base: int = 0) -> Block | None:
    """The block at `offset`, or None if the bytes there do not verify.

    `base` is the offset of the buffer in the file; the offsets of the returned block are those in the file. A block that
    verifies, but has a kind or flag that this version does not know, is `NewerVersion`.
    """
    block = verified_block(buffer, offset, salt, base=base)
    if block is None or not block.flags & COMPRESSED:
        return block
    content = decompress(block.payload, MAX_PAYLOAD)
    return None if content is None else block._replace(payload=content)


def verified_block(buffer: Buffer, offset: int, salt: int, *, base: int = 0) -> Block | None:
    """As `unpack_block`, with the payload as the file has it: compressed, if the flags say so."""
    available = len(buffer) - offset - HEAD_BYTES
    if available < 0:
        return None
    length, crc, kind, flags, reserved = _HEAD.unpack_from(buffer, offset)
    if kind == 0 or length > available or length > MAX_PAYLOAD:
        return None
    start = offset + HEAD_BYTES
    payload = buffer[start : start + length]
    if checksum(salt, base + offset, buffer[offset:start], payload) != crc:
        return None
    known = _KNOWN_FLAGS.get(kind)
    if known is None or flags & ~known or reserved:
        what = f"has kind {kind}, flags {flags}, reserved {reserved}"
        raise NewerVersion(
            f"the block at byte {base + offset} {what}: written by a newer version.", hint="Open it with that version."
        )
    end = base + min(align(start + length), len(buffer))
    return Block(base + offset, BlockKind(kind), flags, payload, crc, end)


def unpack_header(buffer: Buffer) -> tuple[Header, int] | None:
    """The header of a segment and the offset of the block after it, or None. An unknown format is `NewerVersion`."""
    block = _first_block(buffer)
    return (_decode_header(block.payload), block.end) if block else None


def unpack_snapshot_header(buffer: Buffer) -> tuple[SnapshotHeader, int] | None:
    """The header of a snapshot and the offset of the block after it, as `unpack_header`."""
    block = _first_block(buffer)
    return (_decode_snapshot(block.payload), block.end) if block else None


def _first_block(buffer: Buffer) -> Block | None:
    block = unpack_block(buffer, 0, 0)
    if block is None or block.kind is not BlockKind.HEADER:
        return None
    written = _decode_format(block.payload).format
    if not FORMAT <= written <= NEWEST:
        raise NewerVersion(
            f"the file has format {written}, and this kvwal reads formats {FORMAT} to {NEWEST}: written by a newer version.",
            hint="Open it with that version.",
        )
    return block


def find_blocks(buffer: Buffer, offset: int, salt: int, *, base: int = 0) -> Iterator[Block]:
    """Every block that verifies at or after `offset`, at any aligned position: finds the blocks after damage."""
    position, end = offset, _end_of_bytes(buffer, offset)
    while match := _RESERVED.search(buffer, position + _RESERVED_AT, end + 3):
        start = match.start() - _RESERVED_AT
        position = start + 1
        if start % ALIGNMENT:
            continue
        block = unpack_block(buffer, start, salt, base=base)
        if block is not None:
            yield block
            position = block.end - base


def _end_of_bytes(buffer: Buffer, offset: int) -> int:
    """The offset after the last byte that is not zero: the kind of a block is none. A preallocated file ends with zeros."""
    end = len(buffer)
    while end > offset:
        part = bytes(buffer[max(offset, end - len(_MANY_ZEROS)) : end])
        if part != _MANY_ZEROS[: len(part)]:
            return end - len(part) + len(part.rstrip(b"\x00"))
        end -= len(part)
    return offset
