"""Keys as text: what a person reads and types for a key of each class, and the key back from it."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID  # noqa: TID251 - the type only: no UUID is drawn here

import msgspec

from kvwal.errors import CodecError

_LIKE_JSON = "Write it as JSON does: 7, 1.5, true, null."
_HINTS = {
    "datetime": "Write 2026-01-31T12:00:00 (UTC), or 2026-01-31T12:00:00+05:30.",
    "date": "Write 2026-01-31.",
    "decimal": "Write 12.50.",
    "uuid": "Write 123e4567-e89b-12d3-a456-426614174000.",
    "tuple": 'Write it as JSON: ["job-1", 7, {"date": "2026-01-31"}].',
}
TEXT_CLASSES = tuple(_HINTS)
"""The classes of keys that JSON has no form for: they are shown as text, a tuple as an array."""
KEY_CLASSES = ("str", "int", "float", "bool", "bytes", "none", *TEXT_CLASSES)
"""The classes of keys that can be written as text."""
_JSON_TYPES = {"int": int, "float": float, "bool": bool, "none": type(None)}
_JSON_BITS = 63
_NANOSECONDS = re.compile(r"\.[0-9]{7}")
_DIGITS = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|Infinity)")
_decode_json = msgspec.json.Decoder().decode


def plain(key: Any) -> Any:
    """A key as JSON can hold it: text for what it has no form for, an array for a tuple.

    Inside the array all that JSON would not bring back of its type is an object of class and text: `{"date": "2026-01-31"}`.
    """
    kind = key.__class__
    if kind is datetime:
        return key.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if kind is date:
        return key.isoformat()
    if kind in (Decimal, UUID):
        return str(key)
    return [_part(part) for part in key] if kind is tuple else key


def from_plain(content: Any, key_class: str) -> Any:
    """The key that this text stands for, of one of the `KEY_CLASSES`; of a tuple also the array that `plain` made of it.

    Bytes are those of the text, a time without a zone is UTC, and what JSON has a form for is written as in JSON. Raises
    `CodecError`.
    """
    if key_class == "str":
        return content
    if key_class == "bytes":
        return content.encode("utf-8", "surrogateescape")
    try:
        if key_class == "tuple":
            return _tuple(_decode_json(content) if isinstance(content, str) else content)
        return _from_json(content, key_class) if key_class in _JSON_TYPES else _parsed(key_class, content)
    except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError, msgspec.DecodeError) as error:
        raise CodecError(
            f"the key {content!r:.80} is no {key_class}.", hint=_HINTS.get(key_class, _LIKE_JSON)
        ) from error


def _from_json(text: str, key_class: str) -> Any:
    if key_class == "float" and text in ("Infinity", "-Infinity"):
        return float(text)
    value = _decode_json(text)
    if key_class == "float" and type(value) is int:
        value = float(value)
    if type(value) is not _JSON_TYPES[key_class]:
        raise TypeError("it is JSON of another type")
    return value


def _part(part: Any) -> Any:
    kind = part.__class__
    if kind is bytes:
        return {"bytes": base64.b64encode(part).decode()}
    if kind is float and not math.isfinite(part):
        return {"float": "Infinity" if part > 0 else "-Infinity"}
    if kind is int and part.bit_length() > _JSON_BITS:
        return {"int": str(part)}
    name = _NAMES.get(kind)
    return plain(part) if name is None else {name: plain(part)}


def _of_part(content: Any) -> Any:
    if isinstance(content, dict):
        ((name, text),) = content.items()
        return _parsed(name, text)
    return _tuple(content) if isinstance(content, list) else content


def _tuple(content: Any) -> tuple[Any, ...]:
    if not isinstance(content, list):
        raise TypeError("a tuple is an array")
    return tuple(map(_of_part, content))


def _moment(text: str) -> datetime:
    if _NANOSECONDS.search(text):
        raise ValueError("a datetime has microseconds")
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _number(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """The numbers that are written in plain digits: Python reads `1_0` and digits of other scripts, too."""

    def parse(text: str) -> Any:
        if not _DIGITS.fullmatch(text):
            raise ValueError("it is no number")
        return kind(text)

    return parse


def _parsed(name: str, text: Any) -> Any:
    if not isinstance(text, str):
        raise TypeError("it is no text: a number of JSON may be a rounded one")
    return _PARSERS[name](text)


_NAMES: dict[type, str] = {datetime: "datetime", date: "date", Decimal: "decimal", UUID: "uuid"}
_PARSERS: dict[str, Callable[[str], Any]] = {
    "datetime": _moment,
    "date": date.fromisoformat,
    "decimal": _number(Decimal),
    "uuid": UUID,
    "int": _number(int),
    "float": _number(float),
    "bytes": lambda text: base64.b64decode(text, validate=True),
}
