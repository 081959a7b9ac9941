"""Keys and values as text: what a table shows of the bytes of an entry."""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.codecs import registry

_decode_json = msgspec.json.Decoder().decode
_encode_json = msgspec.json.Encoder().encode


def codec_of(class_name: str) -> str:
    """Codec's name in an entry's class: the part behind the structure's name, or the whole class."""
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


def shown(data: bytes, class_name: str) -> bytes:
    """Value for a terminal or a pipe: text and bytes as they are, other values as JSON in one line."""
    value = decoded(data, class_name)
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else _encode_json(value)


def label(data: bytes, class_name: str) -> str:
    """Key or value for a table: the output of `shown`, with bytes that are no UTF-8 as hex."""
    value = shown(data, class_name)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def json_text(data: bytes, class_name: str) -> str | None:
    """A value as JSON text, for DuckDB's JSON functions; None for a delete, and for bytes, which JSON cannot hold."""
    if class_name == "json":
        return data.decode()
    value = decoded(data, class_name) if class_name else b""
    return None if isinstance(value, bytes) else _encode_json(value).decode()
