"""Salt recovery: the salt of a file whose header is damaged is computed from its blocks.

Every block's checksum begins with the salt, and a CRC is linear: for given bytes of a block exactly one salt gives its
checksum. So each position that looks like the head of a block yields a candidate. The salt is the candidate that two positions
agree on.
"""

from __future__ import annotations

import re
import struct

from kvwal.log.files.format import ALIGNMENT, HEAD_BYTES, KIND_AND_FLAGS, checksum
from kvwal.ports.disk import Buffer

_HEAD = re.compile(KIND_AND_FLAGS)
_LENGTH_AND_CRC = struct.Struct("<II")
_MOST = 64 << 10
"""Length of the longest block from which a salt is computed. Every file has shorter blocks, a seal or a group."""
_BITS = 32


def find_salt(buffer: Buffer) -> int | None:
    """The salt under which two blocks of the file verify; None if no salt does."""
    seen: set[int] = set()
    for match in _HEAD.finditer(buffer):
        start = match.start() - 8
        if start < ALIGNMENT or start % ALIGNMENT:
            continue
        salt = _salt_of(buffer, start)
        if salt is not None and salt in seen:
            return salt
        seen |= {salt} if salt is not None else set()
    return None


def _salt_of(buffer: Buffer, offset: int) -> int | None:
    """The one salt that makes the bytes at `offset` a valid block; None if they do not have the length of a block."""
    length, crc = _LENGTH_AND_CRC.unpack_from(buffer, offset)
    start = offset + HEAD_BYTES
    if length > _MOST or start + length > len(buffer):
        return None
    head, payload = bytes(buffer[offset:start]), bytes(buffer[start : start + length])
    without = checksum(0, offset, head, payload)
    columns = [checksum(1 << bit, offset, head, payload) ^ without for bit in range(_BITS)]
    return _solve(columns, crc ^ without)


def _solve(columns: list[int], wanted: int) -> int:
    """The set of columns, as bits, whose exclusive or is `wanted`. The columns are independent, so there is one answer."""
    salt = 0
    rows = [(column, 1 << bit) for bit, column in enumerate(columns)]
    for bit in reversed(range(_BITS)):
        pivot = next((row for row in rows if row[0] >> bit & 1), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        rows = [(row[0] ^ pivot[0], row[1] ^ pivot[1]) if row[0] >> bit & 1 else row for row in rows]
        if wanted >> bit & 1:
            wanted ^= pivot[0]
            salt ^= pivot[1]
    return salt
