"""Keys and values back from the text that the data source shows of them: the inverse of `kvwal.sql.text`."""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.codecs import registry
from kvwal.errors import CodecError
from kvwal.key_text import KEY_CLASSES, from_plain

_decode_json = msgspec.json.Decoder().decode
_READ_ONLY = frozenset({"int64", "hz"})
"""Classes that only a node writes."""

Encoded = tuple[bytes, str]
"""The bytes of a key or a value, and the name of its codec."""


def key_of_text(text: str, key_class: str) -> Encoded:
    """The key that is shown as this text. Raises CodecError.

    Bytes that are no UTF-8 are shown in hexadecimal after 0x, so such a text is those bytes.
    """
    if key_class == "str":
        return text.encode(), "str"
    if key_class == "bytes":
        return _shown_bytes(text), "bytes"
    if key_class not in KEY_CLASSES:
        raise CodecError(f"its key_class is {key_class!r}, and a key can be {', '.join(KEY_CLASSES)}")
    return registry.encode_key(from_plain(text, key_class))


def _shown_bytes(text: str) -> bytes:
    if text.startswith("0x"):
        try:
            data = bytes.fromhex(text[2:])
            data.decode()
        except UnicodeDecodeError:
            return data
        except ValueError:
            pass
    return text.encode()


def value_of_text(text: str, value_class: str | None) -> Encoded:
    """The value that is shown as this JSON text, by its class, or by the kind of JSON that it is (None). Raises CodecError."""
    value = _json(text)
    if type(value) in (dict, list) and value_class in (None, "json"):
        return text.encode(), "json"
    if value_class is None:
        return registry.encode_value(value)
    if value_class == "json":
        return text.encode(), "json"
    if value_class == "float" and type(value) is int:
        value = float(value)
    if value_class in ("str", "int", "float", "bool", "none"):
        data, found = registry.encode_value(value)
        if found != value_class:
            raise CodecError(f"the value is JSON of the class {found!r}, and its value_class is {value_class!r}")
        return data, found
    if value_class == "bytes":
        raise CodecError(
            "its value_class is 'bytes', which JSON cannot hold: give the bytes in a column of type BINARY"
        )
    return value_of_bytes(text.encode(), value_class)


def value_of_bytes(data: bytes, value_class: str | None) -> Encoded:
    """The value that the codec `value_class` encoded as these bytes (None: the bytes themselves). Raises CodecError."""
    if value_class is None or value_class == "bytes":
        return data, "bytes"
    if value_class in _READ_ONLY:
        raise CodecError(f"its value_class is {value_class!r}, which only a node of a cluster writes")
    registry.decode(data, value_class)
    return data, value_class


def _json(text: str) -> Any:
    try:
        return _decode_json(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CodecError(f"the text is no JSON ({error})") from error
