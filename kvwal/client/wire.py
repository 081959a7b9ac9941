"""Words of kvwal (class and bytes) as Hazelcast's serialized bytes, and back: what a member's glue does, on the client's side.

Both sides must agree to the byte, because a key's bytes are its identity in Hazelcast: docs/decisions/0009 has the table, and
ValueCodec.java in kvwal/node/java the other side.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from kvwal.codecs import registry

HEADER = 8
"""Partition hash (0: it follows from the bytes) and type, four bytes each."""
FOREIGN = 27510
"""Hazelcast's type number of what only a codec of kvwal understands: the codec's name and the bytes."""
OPAQUE = "hz"
"""The class of serialized bytes that no codec of kvwal stands for."""

_BOOLEAN, _INTEGER, _LONG, _DOUBLE, _STRING, _BYTES, _BIG_INTEGER, _JSON = -4, -7, -8, -10, -11, -12, -26, -130
_SIZED = {"str": _STRING, "json": _JSON, "bytes": _BYTES}
_OWN = frozenset({*_SIZED, "int", "int64", "float", "bool", OPAQUE})
_SIZES = {_BOOLEAN: HEADER + 1, _INTEGER: HEADER + 4, _LONG: HEADER + 8, _DOUBLE: HEADER + 8}
_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_INT_BITS, _LONG_BITS = 31, 63

_head = struct.Struct(">iiI")
_long = struct.Struct(">iiq")
_int = struct.Struct(">iii")
_bits = struct.Struct(">iiQ")
_valid_json = msgspec.json.Decoder(msgspec.Raw).decode


class Word(NamedTuple):
    """What a codec made of a key or value: its bytes, and its name."""

    data: bytes
    name: str


def to_wire(data: bytes, name: str) -> bytes:
    """The serialized form of a word. Each word has exactly one."""
    kind = _SIZED.get(name)
    if kind is not None:
        return _head.pack(0, kind, len(data)) + data
    if name == "int":
        return _int_to_wire(_decode_int(data))
    if name == "bool":
        return struct.pack(">ii", 0, _BOOLEAN) + data
    if name == "float":
        (bits,) = struct.unpack(">Q", data)
        return _bits.pack(0, _DOUBLE, bits ^ _SIGN if bits & _SIGN else bits ^ _ALL)
    if name == "int64":
        return _long.pack(0, _LONG, _decode_int(data))
    if name == OPAQUE:
        return data
    ascii_name = name.encode("ascii")
    return struct.pack(">iib", 0, FOREIGN, len(ascii_name)) + ascii_name + data


def from_wire(buffer: bytes) -> Word:
    """The word that the serialized bytes stand for; any of them has one."""
    partition_hash, kind = struct.unpack_from(">ii", buffer)
    word = None if partition_hash else _own(kind, buffer)
    return Word(bytes(buffer), OPAQUE) if word is None else word


def _own(kind: int, buffer: bytes) -> Word | None:
    if _SIZES.get(kind, len(buffer)) != len(buffer):
        return None
    if kind in (_STRING, _JSON, _BYTES, _BIG_INTEGER):
        return _sized(kind, buffer)
    if kind == _INTEGER:
        return Word(_encode_int(_int.unpack(buffer)[2]), "int")
    if kind == _LONG:
        number = _long.unpack(buffer)[2]
        return Word(_encode_int(number), "int64" if _fits(number, _INT_BITS) else "int")
    if kind == _DOUBLE:
        bits = _bits.unpack(buffer)[2]
        return (
            None if _is_nan(bits) else Word(struct.pack(">Q", bits ^ _ALL if bits & _SIGN else bits ^ _SIGN), "float")
        )
    if kind == _BOOLEAN:
        return Word(bytes(buffer[HEADER : HEADER + 1]), "bool") if buffer[HEADER] in (0, 1) else None
    return _foreign(buffer) if kind == FOREIGN else None


def _sized(kind: int, buffer: bytes) -> Word | None:
    """What has its length in front; None where the content is not what a codec of kvwal can read."""
    if len(buffer) < HEADER + 4 or _head.unpack_from(buffer)[2] != len(buffer) - HEADER - 4:
        return None
    data = bytes(buffer[HEADER + 4 :])
    if kind == _BYTES:
        return Word(data, "bytes")
    if kind == _BIG_INTEGER:
        return _big(data)
    try:
        data.decode()
        if kind == _JSON:
            _valid_json(data)
    except (UnicodeDecodeError, msgspec.DecodeError):
        return None
    return Word(data, "str" if kind == _STRING else "json")


def _big(data: bytes) -> Word | None:
    number = int.from_bytes(data, "big", signed=True)
    if _fits(number, _LONG_BITS) or _two_complement(number) != data or (number if number >= 0 else ~number) >> 8 * 127:
        return None
    return Word(_encode_int(number), "int")


def _foreign(buffer: bytes) -> Word | None:
    size = buffer[HEADER] if len(buffer) > HEADER else 0
    start = HEADER + 1 + size
    if not 0 < size < 128 or len(buffer) < start:
        return None
    name = bytes(buffer[HEADER + 1 : start])
    if any(not 32 < letter < 127 for letter in name) or (text := name.decode("ascii")) in _OWN:
        return None
    return Word(bytes(buffer[start:]), text)


def _int_to_wire(number: int) -> bytes:
    if _fits(number, _INT_BITS):
        return _int.pack(0, _INTEGER, number)
    if _fits(number, _LONG_BITS):
        return _long.pack(0, _LONG, number)
    data = _two_complement(number)
    return _head.pack(0, _BIG_INTEGER, len(data)) + data


def _fits(number: int, bits: int) -> bool:
    return -(1 << bits) <= number < 1 << bits


def _two_complement(number: int) -> bytes:
    """As few bytes as hold the number and its sign: Java's BigInteger.toByteArray."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _is_nan(bits: int) -> bool:
    return (bits >> 52) & 0x7FF == 0x7FF and bits & ((1 << 52) - 1) != 0


_encode_int = registry.by_name["int"].encode
_decode_int = registry.by_name["int"].decode
