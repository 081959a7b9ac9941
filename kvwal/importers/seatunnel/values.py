"""Values of SeaTunnel's serializer: a Java object becomes an equal value of Python, or stays the bytes that the serializer made.

Protostuff wraps an object of a class of the Java language into a group: one field, whose number says the class.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from kvwal.importers.source import NotWhole
from kvwal.importers.wire import BYTES, END_GROUP, FIXED32, FIXED64, GROUP, VARINT, Field, fields

_OBJECT = 1
"""The number of the field of the wrapper that holds the object."""


class Wrapped(NamedTuple):
    """How the serializer writes a class: the number of its field, the kind, and the way back from the field."""

    number: int
    kind: int
    value: Callable[[Field], Any]


def _signed(bits: int) -> Callable[[Field], int]:
    """A number of `bits` bits. A negative one is written with 64 bits, that of a Byte or a Short with 32."""

    def value(field: Field) -> int:
        number = field.varint()
        width = 32 if bits <= 32 and number < 1 << 32 else 64
        signed = number - (1 << width) if number >> (width - 1) else number
        if not -(1 << (bits - 1)) <= signed < 1 << (bits - 1):
            raise NotWhole(f"the number {signed} has more than {bits} bits")
        return signed

    return value


def _bool(field: Field) -> bool:
    if field.varint() > 1:
        raise NotWhole("a Boolean is neither true nor false")
    return bool(field.varint())


def _char(field: Field) -> str:
    number = field.varint()
    if number >= 1 << 16 or 0xD800 <= number < 0xE000:
        raise NotWhole("a Character is no character")
    return chr(number)


def _real(form: str) -> Callable[[Field], float]:
    def value(field: Field) -> float:
        number: float = struct.unpack(form, field.value)[0]  # type: ignore[arg-type]  # the kind of the field was checked
        return number

    return value


CLASSES = {
    "java.lang.Boolean": Wrapped(1, VARINT, _bool),
    "java.lang.Byte": Wrapped(2, VARINT, _signed(8)),
    "java.lang.Character": Wrapped(3, VARINT, _char),
    "java.lang.Short": Wrapped(4, VARINT, _signed(16)),
    "java.lang.Integer": Wrapped(5, VARINT, _signed(32)),
    "java.lang.Long": Wrapped(6, VARINT, _signed(64)),
    "java.lang.Float": Wrapped(7, FIXED32, _real("<f")),
    "java.lang.Double": Wrapped(8, FIXED64, _real("<d")),
    "java.lang.String": Wrapped(9, BYTES, Field.text),
}
"""The classes that have an equal type in Python."""


def plain_value(data: bytes, class_name: str) -> Any:
    """The value of an object of one of `CLASSES`; of any other class the bytes. Raises `NotWhole` if they are no such object."""
    wrapped = CLASSES.get(class_name)
    if wrapped is None:
        return data
    found = list(fields(data))
    if (
        len(found) != 3
        or found[0][:2] != (_OBJECT, GROUP)
        or found[2][:2] != (_OBJECT, END_GROUP)
        or found[1][:2] != (wrapped.number, wrapped.kind)
    ):
        raise NotWhole(f"its bytes are no {class_name}")
    return wrapped.value(found[1])
