"""Entries and times as text and as JSON.

`kvwal get` loads this module, so it imports nothing that takes long to load.
"""

from __future__ import annotations

import base64
import os
import re
from datetime import datetime
from typing import Any

import msgspec

from kvwal.entry import DataEntry
from kvwal.errors import CodecError, ConfigError
from kvwal.hlc import to_text, to_timestamp
from kvwal.sql.text import decoded as decoded
from kvwal.sql.text import label as label
from kvwal.sql.text import shown as shown

_decode_json = msgspec.json.Decoder().decode
_encode_json = msgspec.json.Encoder().encode

_DURATION = re.compile(r"([0-9]{1,9})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
KEY_CLASSES = ("str", "int", "float", "bool", "bytes", "none")


_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Text for a terminal: control characters, line ends and marks of text direction are escaped."""
    return _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], text)


def as_json(entry: DataEntry) -> dict[str, Any]:
    """Fields of an entry, for a program. Timestamps are strings, because they exceed the numbers of JSON. Bytes are base64, and
    `key_encoding` or `value_encoding` says so.
    """
    fields: dict[str, Any] = {"key_class": entry.key_class, "value_class": entry.value_class, "deleted": entry.deleted}
    for name, data, class_name in (("key", entry.key, entry.key_class), ("value", entry.value, entry.value_class)):
        if name == "value" and entry.deleted:
            fields[name] = None
            continue
        content = decoded(data, class_name)
        if isinstance(content, bytes):
            fields[f"{name}_encoding"] = "base64"
            content = base64.b64encode(content).decode()
        fields[name] = content
    fields |= {"timestamp": str(entry.timestamp), "time": to_text(entry.timestamp)}
    if entry.expires:
        fields["expires"] = to_text(entry.expires << 16)
    return fields


def line(content: Any) -> bytes:
    """Content as one line of JSON."""
    return _encode_json(content)


def is_text(typed: str) -> bool:
    """Whether the typed text is UTF-8."""
    try:
        typed.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(what: str, typed: str) -> str:
    """The typed text. Raises `ConfigError` if it is not UTF-8."""
    if is_text(typed):
        return typed
    raise ConfigError(
        f"{what} {os.fsencode(typed)!r} is no UTF-8 text.",
        hint="Type text; a key of other bytes is one with --key-class bytes.",
    )


def parse_value(text: str) -> Any:
    """Value of the argument VALUE: JSON if the text is JSON, else the text, or its bytes if they are not UTF-8."""
    if not is_text(text):
        return os.fsencode(text)
    try:
        return _decode_json(text)
    except msgspec.DecodeError:
        return text


def parse_key(text: str, class_name: str) -> Any:
    """Key of the argument KEY: the text, or its value of the class that `--key-class` names."""
    if class_name == "str":
        return check_text("the key", text)
    if class_name == "bytes":
        return text.encode("utf-8", "surrogateescape")
    if class_name not in KEY_CLASSES:
        raise ConfigError(
            f"--key-class {class_name} is no class of keys.", hint=f"Choose one of {', '.join(KEY_CLASSES)}."
        )
    kinds = {"int": int, "float": float, "bool": bool, "none": type(None)}
    value = parse_value(text)
    if class_name == "float" and type(value) is int:
        value = float(value)
    if type(value) is not kinds[class_name]:
        raise CodecError(f"the key {text!r} is no {class_name}.", hint="Write it as JSON does: 7, 1.5, true, null.")
    return value


def parse_duration(text: str) -> int | None:
    """The milliseconds of a duration (90s, 90m, 24h, 7d, 4w); None for any other text."""
    typed = _DURATION.fullmatch(text)
    return int(typed[1]) * _SECONDS[typed[2]] * 1_000 if typed else None


def parse_time(text: str) -> int:
    """Timestamp of a typed date and time, or of a typed timestamp. A time without a zone is local time."""
    if text.isdecimal():
        return to_timestamp(int(text))
    try:
        return to_timestamp(datetime.fromisoformat(text))
    except ValueError as error:
        raise ConfigError(f"{text!r} is no time: {error}.", hint="Write 2025-01-31T12:00:00 or a timestamp.") from None
