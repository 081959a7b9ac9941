"""Key codecs: bytes of keys whose order has a meaning, made so that the bytes of two keys compare as the keys do.

A codec of keys never changes, since the bytes are the identity of an entry (docs/decisions/0088). Equal keys give equal bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID  # noqa: TID251 - the type only: no UUID is drawn here

from kvwal.errors import CodecError

_INT_MAX_BYTES = 127
_DOUBLE = struct.Struct(">Q")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECOND = timedelta(microseconds=1)
_MOST_PLAIN_DIGITS = 40
"""A whole Decimal of at most this many digits is decoded with all of its zeros: as 100, and not as 1E+2."""
_INVERTED = bytes(range(255, -1, -1))
_TUPLE_LEVELS = 16
END_OF_TUPLES = b"\xff"
"""After the bytes of a tuple: above the bytes of all tuples that begin with its parts, and at most those of tuples whose last
part here goes on with a zero."""


class KeyCodec(NamedTuple):
    """A codec of keys: its name, the type of its keys, and two functions."""

    name: str
    kind: type
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def encode_int(number: int) -> bytes:
    """An int as one byte of sign and length (0x80 + bytes, or 0x80 - bytes for negatives), then the number, big-endian."""
    magnitude = number if number >= 0 else ~number
    size = (magnitude.bit_length() + 7) // 8 or 1
    if size > _INT_MAX_BYTES:
        raise CodecError(f"an int of {size} bytes is too long: the int codec takes {_INT_MAX_BYTES} bytes at most.")
    if number >= 0:
        return bytes([0x80 + size]) + number.to_bytes(size, "big")
    return bytes([0x80 - size]) + (number + (1 << 8 * size)).to_bytes(size, "big")


def decode_int(data: bytes) -> int:
    """The int that `encode_int` encoded. Raises `ValueError` and `IndexError`."""
    size = data[0] - 0x80
    if len(data) != abs(size) + 1 or not size:
        raise ValueError("the length byte does not fit the data")
    number = int.from_bytes(data[1:], "big")
    return number if size > 0 else number - (1 << 8 * -size)


def encode_float(number: float) -> bytes:
    """A float as IEEE 754, the sign bit flipped for positives and all bits for negatives: bytes compare as the numbers do."""
    if math.isnan(number):
        raise CodecError("NaN cannot be stored: it equals nothing, itself included. Store None instead.")
    (bits,) = _DOUBLE.unpack(struct.pack(">d", number))
    return _DOUBLE.pack(bits ^ 0xFFFFFFFFFFFFFFFF if bits >> 63 else bits | 1 << 63)


def decode_float(data: bytes) -> float:
    """The float that `encode_float` encoded. Raises `struct.error`."""
    (bits,) = _DOUBLE.unpack(data)
    bits = bits ^ 1 << 63 if bits >> 63 else bits ^ 0xFFFFFFFFFFFFFFFF
    number: float = struct.unpack(">d", _DOUBLE.pack(bits))[0]
    return number


def encode_bool(value: bool) -> bytes:
    """One byte, 0 or 1."""
    return b"\x01" if value else b"\x00"


def decode_bool(data: bytes) -> bool:
    """The bool that `encode_bool` encoded. Raises `KeyError`."""
    return {b"\x00": False, b"\x01": True}[data]


def encode_none(value: None) -> bytes:
    """No bytes."""
    return b""


def decode_none(data: bytes) -> None:
    """None, for no bytes. Raises `ValueError`."""
    if data:
        raise ValueError("None has no bytes")


def encode_float_key(number: float) -> bytes:
    """A float as a key: -0.0 is encoded as 0.0, because they are equal."""
    return encode_float(number or 0.0)


def _encode_datetime(moment: datetime) -> bytes:
    """A moment as the int of its microseconds since 1970 (UTC)."""
    if moment.utcoffset() is None:
        raise CodecError(
            f"the datetime {moment} has no time zone, so it is no moment.",
            hint="Give it one: datetime.now(UTC), or moment.replace(tzinfo=UTC).",
        )
    data = encode_int((moment - _EPOCH) // _MICROSECOND)
    if moment.tzinfo is not UTC and _decode_datetime(data) != moment:
        raise CodecError(
            f"the datetime {moment} is in an hour that its zone has twice or not at all, and equals no moment of another zone.",
            hint="Convert it: moment.astimezone(UTC).",
        )
    return data


def _decode_datetime(data: bytes) -> datetime:
    return _EPOCH + timedelta(microseconds=decode_int(data))


def _encode_date(day: date) -> bytes:
    """A day as the int of days since 1970-01-01."""
    return encode_int(day.toordinal() - _EPOCH_DAY)


def _decode_date(data: bytes) -> date:
    return date.fromordinal(decode_int(data) + _EPOCH_DAY)


def _encode_decimal(number: Decimal) -> bytes:
    """A Decimal as a byte (0 -Infinity, 1 negative, 2 zero, 3 positive, 4 Infinity), the int of the power of ten of its first
    digit, and its digits in ASCII without zeros at the end. All after the first byte of a negative is inverted, and ends
    with 0xFF. So 1.0 and 1.00, which are equal, have the same bytes.
    """
    if number.is_nan():
        raise CodecError("NaN cannot be stored: it equals nothing, itself included. Store None instead.")
    if number.is_infinite():
        return b"\x00" if number < 0 else b"\x04"
    if not number:
        return b"\x02"
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0").encode()
    magnitude = encode_int(number.adjusted()) + digits
    return b"\x03" + magnitude if number > 0 else b"\x01" + magnitude.translate(_INVERTED) + b"\xff"


def _decode_decimal(data: bytes) -> Decimal:
    if len(data) == 1:
        return {0: Decimal("-Infinity"), 2: Decimal(0), 4: Decimal("Infinity")}[data[0]]
    negative = data[0] == 1
    if (not negative and data[0] != 3) or (negative and data[-1] != 0xFF):
        raise ValueError("the first and the last byte are none of a Decimal")
    magnitude = data[1:-1].translate(_INVERTED) if negative else data[1:]
    size = 1 + abs(magnitude[0] - 0x80)
    digits = magnitude[size:].decode("ascii")
    if not digits.isdecimal() or digits[0] == "0" or digits[-1] == "0":
        raise ValueError("the digits are none, or have zeros at an end")
    adjusted = decode_int(magnitude[:size])
    if len(digits) <= adjusted < _MOST_PLAIN_DIGITS:
        digits = digits.ljust(adjusted + 1, "0")
    return Decimal((int(negative), tuple(map(int, digits)), adjusted - len(digits) + 1))


def _encode_uuid(key: UUID) -> bytes:
    """The 16 bytes of a UUID."""
    return key.bytes


def _decode_uuid(data: bytes) -> UUID:
    return UUID(bytes=data)


def _encode_tuple(key: tuple[Any, ...], levels: int = _TUPLE_LEVELS) -> bytes:
    """A tuple as its parts one after the other: for each the number of its codec, its bytes with 0xFF after each 0x00, and a
    0x00. So a tuple is before all that begin with it, and its bytes are a prefix of theirs.
    """
    if not levels:
        raise CodecError(f"a tuple is nested too deeply for a key ({_TUPLE_LEVELS} levels at most).")
    parts: list[bytes] = []
    for part in key:
        codec = _OF_TYPE.get(part.__class__)
        if codec is None:
            raise CodecError(
                f"{part!r:.80} cannot be a part of a tuple that is a key.", hint=f"Parts are {PART_TYPES}."
            )
        number, (name, _, encode, _) = codec
        data = _encode_tuple(part, levels - 1) if name == "tuple" else encode(part)
        parts += bytes([number]), data.replace(b"\x00", b"\x00\xff"), b"\x00"
    return b"".join(parts)


def _decode_tuple(data: bytes, levels: int = _TUPLE_LEVELS) -> tuple[Any, ...]:
    if not levels:
        raise ValueError(f"it has more than {_TUPLE_LEVELS} levels")
    parts = ((_OF_NUMBER[number], part) for number, part in _parts(data))
    return tuple(
        _decode_tuple(part, levels - 1) if codec.kind is tuple else codec.decode(part) for codec, part in parts
    )


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start < len(data):
        end = data.index(b"\x00", start + 1)
        while data[end + 1 : end + 2] == b"\xff":
            end = data.index(b"\x00", end + 2)
        yield data[start], data[start + 1 : end].replace(b"\x00\xff", b"\x00")
        start = end + 1


PART_TYPES = "str, int, float, bool, bytes, None, datetime with a time zone, date, Decimal, UUID and tuples of them"
"""The types of keys that need no registered codec, for a sentence."""
_PLAIN = (
    KeyCodec("none", type(None), encode_none, decode_none),
    KeyCodec("bool", bool, encode_bool, decode_bool),
    KeyCodec("int", int, encode_int, decode_int),
    KeyCodec("float", float, encode_float_key, decode_float),
    KeyCodec("str", str, str.encode, bytes.decode),
    KeyCodec("bytes", bytes, bytes, bytes),
)
ORDERED = (
    KeyCodec("decimal", Decimal, _encode_decimal, _decode_decimal),
    KeyCodec("date", date, _encode_date, _decode_date),
    KeyCodec("datetime", datetime, _encode_datetime, _decode_datetime),
    KeyCodec("uuid", UUID, _encode_uuid, _decode_uuid),
    KeyCodec("tuple", tuple, _encode_tuple, _decode_tuple),
)
"""The codecs that encode keys only: a value of these types has none, since not all of it would come back (1.00, a zone)."""
_OF_NUMBER = dict(enumerate((*_PLAIN, *ORDERED), start=1))
"""The numbers of the codecs inside a tuple. They order parts of different classes, and never change."""
_OF_TYPE = {codec.kind: (number, codec) for number, codec in _OF_NUMBER.items()}
