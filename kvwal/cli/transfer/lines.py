"""Lines of an export: a JSON object with the stored bytes of key and value and their classes.

UTF-8 bytes are text, other bytes are base64. Another store reads them back unchanged, even if their classes are those of a
program's own codecs.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal

import msgspec

from kvwal.cli.text import decoded, decoded_key
from kvwal.entry import DataEntry, Entry, make_entry
from kvwal.errors import CodecError

Encoding = Literal["utf-8", "base64"]


class Line(msgspec.Struct, kw_only=True):
    """An entry of an export. `timestamp` is information only: an import gives the entry a new timestamp."""

    key: str
    key_class: str
    value: str
    value_class: str
    key_encoding: Encoding = "utf-8"
    value_encoding: Encoding = "utf-8"
    expires_ms: int = 0
    timestamp: str = ""


_decode = msgspec.json.Decoder(Line).decode


def exported(entry: DataEntry) -> dict[str, Any]:
    """The fields of an entry's line."""
    fields: dict[str, Any] = {}
    for name, data, class_name in (("key", entry.key, entry.key_class), ("value", entry.value, entry.value_class)):
        try:
            fields[name] = data.decode()
        except UnicodeDecodeError:
            fields[name], fields[f"{name}_encoding"] = base64.b64encode(data).decode(), "base64"
        fields[f"{name}_class"] = class_name
    if entry.expires:
        fields["expires_ms"] = entry.expires
    return fields | {"timestamp": str(entry.timestamp)}


def entry_of_line(text: bytes) -> Entry:
    """The entry of a line of an export. Raises `CodecError` if the line is none; its sentence begins after the subject."""
    try:
        parsed = _decode(text)
        key, value = data_of(parsed.key, parsed.key_encoding), data_of(parsed.value, parsed.value_encoding)
        decoded_key(key, parsed.key_class)
        decoded(value, parsed.value_class)
    except (msgspec.DecodeError, binascii.Error, CodecError, ValueError) as error:
        raise CodecError(f"is no line of an export: {str(error).rstrip('.')}.") from error
    return make_entry(key, parsed.key_class, value, parsed.value_class, False, 0, parsed.expires_ms)


def data_of(text: str, encoding: Encoding) -> bytes:
    """The stored bytes of a key or value."""
    return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode()
