"""The wire format of Protocol Buffers, as Flume and SeaTunnel use it: fields of a message, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvwal.importers.source import EndsEarly, NotWhole

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
_FIXED = {FIXED64: 8, FIXED32: 4}
_MOST_VARINT = 10


class Field(NamedTuple):
    """A field of a message. `number` is that of the schema, `value` an int of a varint, else bytes."""

    number: int
    kind: int
    value: int | bytes

    def varint(self) -> int:
        """The unsigned number of a varint. Raises `NotWhole` if it is none."""
        if self.kind != VARINT or not isinstance(self.value, int):
            raise NotWhole(f"field {self.number} is no number")
        return self.value

    def data(self) -> bytes:
        """The bytes of a field with a length. Raises `NotWhole` if it is none."""
        if self.kind != BYTES or not isinstance(self.value, bytes):
            raise NotWhole(f"field {self.number} has no bytes")
        return self.value

    def text(self) -> str:
        """The UTF-8 text of a field with a length. Raises `NotWhole` if it is none."""
        try:
            return self.data().decode()
        except UnicodeDecodeError as error:
            raise NotWhole(f"field {self.number} is no UTF-8 text") from error

    def fixed(self, kind: int) -> int:
        """The signed number of a field of four or eight bytes. Raises `NotWhole` if it is none."""
        if self.kind != kind or not isinstance(self.value, bytes):
            raise NotWhole(f"field {self.number} is no number of {_FIXED[kind]} bytes")
        return int.from_bytes(self.value, "little", signed=True)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at an offset, and the offset behind it. Raises `NotWhole`."""
    number = 0
    for step in range(_MOST_VARINT):
        if at + step >= len(data):
            raise EndsEarly("a number goes on behind the end")
        byte = data[at + step]
        number |= (byte & 0x7F) << 7 * step
        if byte < 0x80:
            if number >= 1 << 64:
                break
            return number, at + step + 1
    raise NotWhole("a number has more than 64 bits")


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message that fills `data`. A group is given as its two marks. Raises `NotWhole`."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise NotWhole("a field has the number 0")
        if kind == VARINT:
            value, at = varint(data, at)
            yield Field(number, kind, value)
            continue
        if kind == BYTES:
            size, at = varint(data, at)
        elif kind in (GROUP, END_GROUP):
            size = 0
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise NotWhole(f"field {number} is of the unknown kind {kind}")
        if at + size > len(data):
            raise EndsEarly(f"field {number} goes on behind the end")
        yield Field(number, kind, data[at : at + size])
        at += size


def delimited(data: bytes, at: int) -> tuple[bytes, int]:
    """The bytes of a message that stands behind its length, and the offset behind it. Raises `NotWhole`."""
    size, at = varint(data, at)
    if at + size > len(data):
        raise EndsEarly("a message goes on behind the end")
    return data[at : at + size], at + size
