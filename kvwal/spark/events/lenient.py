"""The second try at a line that does not fit the type of its event: what cannot be read is left out, and the rest is an event.

Spark 3.1 writes the rate `NaN` as text, other writers write NaN as a bare word, and a driver with another default encoding
writes bytes that are no UTF-8. Such a value costs its field. An event lacks only the fields that have a default; without
another one it is no event. Only lines that the strict parser refuses come here, so this parser may be slow.
"""

from __future__ import annotations

import json
import math
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

E = TypeVar("E")
_UNREADABLE: Any = object()
"""Stands for a value that its type does not take."""


def load(line: bytes) -> Any:
    """The JSON of a line: NaN and Infinity are null, bytes that are no UTF-8 are replaced. Raises `ValueError`."""
    return json.loads(line.decode("utf-8", "replace"), parse_constant=lambda name: None)


def convert(value: Any, event: type[E]) -> E:
    """The event of loaded JSON, without the values that its type does not take. Raises `msgspec.ValidationError`."""
    return msgspec.convert(_readable(value, event), event)


def _readable(value: Any, kind: Any) -> Any:
    """The value without the parts that `kind` does not take, or `_UNREADABLE`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _readable_struct(value, kind)
    if kind is msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(_storable(value)))
    if origin in (Union, UnionType):
        return next((part for each in arguments if (part := _readable(value, each)) is not _UNREADABLE), _UNREADABLE)
    if origin is list and isinstance(value, list):
        return [part for item in value if (part := _readable(item, arguments[0])) is not _UNREADABLE]
    if origin is dict and isinstance(value, dict):
        parts = {_readable(name, arguments[0]): _readable(item, arguments[1]) for name, item in value.items()}
        return {name: part for name, part in parts.items() if part is not _UNREADABLE}
    if isinstance(value, float) and not math.isfinite(value):
        return _UNREADABLE
    try:
        return msgspec.convert(_storable(value), kind)
    except msgspec.ValidationError:
        return _UNREADABLE


def _readable_struct(value: Any, kind: type[msgspec.Struct]) -> Any:
    if not isinstance(value, dict):
        return _UNREADABLE
    read = {}
    for field in msgspec.structs.fields(kind):
        part = _readable(value[field.encode_name], field.type) if field.encode_name in value else _UNREADABLE
        if part is not _UNREADABLE:
            read[field.encode_name] = part
        elif field.required:
            return _UNREADABLE
    return read


def _storable(value: Any) -> Any:
    """The value with whole characters: JSON may have half of a surrogate pair, which no UTF-8 has."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {_storable(name): _storable(item) for name, item in value.items()}
    return value
