"""Wire encoding: class and bytes of kvwal as Hazelcast's serialized bytes, and back.

A member does the same in ValueCodec.java (kvwal/node/java). Client and member must agree to the byte, because a key's bytes are
its identity in Hazelcast. docs/decisions/0009 has the table.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from kvwal.codecs import registry
from kvwal.key_class import is_of_map, kind_of, structure_of

HEADER = 8
"""Bytes of the header: partition hash (0: computed from the bytes) and type number, four bytes each."""
FOREIGN = 27510
"""Hazelcast's type number of a value that only a codec of kvwal can read: the codec's name, then the bytes."""
OPAQUE = "hz"
"""Class of serialized bytes that no codec of kvwal reads; the bytes are kept as they are."""

_BOOLEAN, _INTEGER, _LONG, _DOUBLE, _STRING, _BYTES, _BIG_INTEGER, _JSON = -4, -7, -8, -10, -11, -12, -26, -130
_SIZED = {"str": _STRING, "json": _JSON, "bytes": _BYTES}
_OWN = frozenset({*_SIZED, "int", "int64", "float", "bool", OPAQUE})
_STRUCTURES = frozenset({"map", "queue", "content", "owner"})
"""Kinds of structures whose entries are in memory, and the record of who decides on queues. ValueCodec.java knows them."""
_SIZES = {_BOOLEAN: HEADER + 1, _INTEGER: HEADER + 4, _LONG: HEADER + 8, _DOUBLE: HEADER + 8}
_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_INT_BITS, _LONG_BITS = 31, 63

_head = struct.Struct(">iiI")
_long = struct.Struct(">iiq")
_int = struct.Struct(">iii")
_bits = struct.Struct(">iiQ")
_valid_json = msgspec.json.Decoder(msgspec.Raw).decode


class Encoded(NamedTuple):
    """A key or value as a codec encoded it: the bytes, and the codec's name."""

    data: bytes
    class_name: str


def to_wire(data: bytes, class_name: str) -> bytes:
    """The serialized bytes of a class and its bytes. Each pair has exactly one serialized form."""
    kind = _SIZED.get(class_name)
    if kind is not None:
        return _head.pack(0, kind, len(data)) + data
    if class_name == "int":
        return _int_to_wire(_decode_int(data))
    if class_name == "bool":
        return struct.pack(">ii", 0, _BOOLEAN) + data
    if class_name == "float":
        (bits,) = struct.unpack(">Q", data)
        return _bits.pack(0, _DOUBLE, bits ^ _SIGN if bits & _SIGN else bits ^ _ALL)
    if class_name == "int64":
        return _long.pack(0, _LONG, _decode_int(data))
    if class_name == OPAQUE:
        return data
    ascii_name = class_name.encode("ascii")
    return struct.pack(">iib", 0, FOREIGN, len(ascii_name)) + ascii_name + data


def from_wire(buffer: bytes) -> Encoded:
    """The class and bytes that serialized bytes stand for. Bytes that no codec reads get the class `OPAQUE`."""
    partition_hash, kind = struct.unpack_from(">ii", buffer)
    encoded = None if partition_hash else _own(kind, buffer)
    return Encoded(bytes(buffer), OPAQUE) if encoded is None else encoded


def _own(kind: int, buffer: bytes) -> Encoded | None:
    if _SIZES.get(kind, len(buffer)) != len(buffer):
        return None
    if kind in (_STRING, _JSON, _BYTES, _BIG_INTEGER):
        return _sized(kind, buffer)
    if kind == _INTEGER:
        return Encoded(_encode_int(_int.unpack(buffer)[2]), "int")
    if kind == _LONG:
        number = _long.unpack(buffer)[2]
        return Encoded(_encode_int(number), "int64" if _fits(number, _INT_BITS) else "int")
    if kind == _DOUBLE:
        bits = _bits.unpack(buffer)[2]
        return (
            None
            if _is_nan(bits)
            else Encoded(struct.pack(">Q", bits ^ _ALL if bits & _SIGN else bits ^ _SIGN), "float")
        )
    if kind == _BOOLEAN:
        return Encoded(bytes(buffer[HEADER : HEADER + 1]), "bool") if buffer[HEADER] in (0, 1) else None
    return _foreign(buffer) if kind == FOREIGN else None


def _sized(kind: int, buffer: bytes) -> Encoded | None:
    """A type with its length in front of the content. None if no codec of kvwal can read the content."""
    if len(buffer) < HEADER + 4 or _head.unpack_from(buffer)[2] != len(buffer) - HEADER - 4:
        return None
    data = bytes(buffer[HEADER + 4 :])
    if kind == _BYTES:
        return Encoded(data, "bytes")
    if kind == _BIG_INTEGER:
        return _big(data)
    try:
        data.decode()
        if kind == _JSON:
            _valid_json(data)
    except (UnicodeDecodeError, msgspec.DecodeError):
        return None
    return Encoded(data, "str" if kind == _STRING else "json")


def _big(data: bytes) -> Encoded | None:
    number = int.from_bytes(data, "big", signed=True)
    if _fits(number, _LONG_BITS) or _two_complement(number) != data or (number if number >= 0 else ~number) >> 8 * 127:
        return None
    return Encoded(_encode_int(number), "int")


def _foreign(buffer: bytes) -> Encoded | None:
    size = buffer[HEADER] if len(buffer) > HEADER else 0
    start = HEADER + 1 + size
    if not 0 < size < 128 or len(buffer) < start:
        return None
    name = bytes(buffer[HEADER + 1 : start])
    if any(not 32 < letter < 127 for letter in name) or (text := name.decode("ascii")) in _OWN:
        return None
    if not is_of_map(text) and kind_of(structure_of(text)) not in _STRUCTURES:
        return None
    return Encoded(bytes(buffer[start:]), text)


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
    """The shortest bytes that hold the number and its sign, as Java's BigInteger.toByteArray makes them."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _is_nan(bits: int) -> bool:
    return (bits >> 52) & 0x7FF == 0x7FF and bits & ((1 << 52) - 1) != 0


_encode_int = registry.by_name["int"].encode
_decode_int = registry.by_name["int"].decode
