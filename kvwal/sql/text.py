"""Keys and values as text: what a table shows of the bytes of an entry."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from kvwal.codecs import registry
from kvwal.key_text import plain

_decode_json = msgspec.json.Decoder().decode
_encode_json = msgspec.json.Encoder().encode


def codec_of(class_name: str) -> str:
    """Codec's name in an entry's class: the part after the structure's name, or the whole class."""
    return class_name.rpartition(":")[2]


def decoded(data: bytes, class_name: str) -> Any:
    """Value that the bytes stand for. Bytes of an unknown class are read as JSON if they are JSON, else returned as they are."""
    name = codec_of(class_name)
    if name in registry.by_name:
        return registry.decode(data, name)
    try:
        return _decode_json(data)
    except msgspec.DecodeError:
        return data


def decoded_key(data: bytes, key_class: str) -> Any:
    """As `decoded`, of a key. A key that JSON has no form for is text, or a list (see `kvwal.key_text`)."""
    if registry.is_own(key_class):
        return plain(registry.decode_key(data, key_class))
    return decoded(data, key_class)


def shown(data: bytes, class_name: str) -> bytes:
    """Value for a terminal or a pipe: text and bytes as they are, other values as JSON in one line, infinity as its name."""
    return _bytes_of(decoded(data, class_name))


def label(data: bytes, class_name: str) -> str:
    """Value for a table: the output of `shown`, with bytes that are no UTF-8 as hex."""
    return _cell(shown(data, class_name))


def key_label(data: bytes, key_class: str) -> str:
    """Key for a table, as `label`."""
    return _cell(_bytes_of(decoded_key(data, key_class)))


def _bytes_of(content: Any) -> bytes:
    value = finite(content)
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else encode_json(value)


def _cell(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def json_text(data: bytes, class_name: str) -> str | None:
    """A value as JSON text, for DuckDB's JSON functions; None for a delete, and for bytes, which JSON cannot hold."""
    if class_name == "json":
        return data.decode()
    value = decoded(data, class_name) if class_name else b""
    return None if isinstance(value, bytes) else encode_json(value).decode()


def encode_json(content: Any) -> bytes:
    """Content as JSON in one line. JSON has no infinity: it becomes the text that `finite` gives."""
    encoded = _encode_json(content)
    return _encode_json(_finite_within(content)) if b"null" in encoded else encoded


def finite(value: Any) -> Any:
    """The value, or the name of a float that JSON does not have: `Infinity`, `-Infinity`, `NaN`, as DuckDB and Spark read it."""
    if type(value) is not float or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _finite_within(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite_within(item) for name, item in content.items()}
    return [_finite_within(item) for item in content] if isinstance(content, list | tuple) else finite(content)
