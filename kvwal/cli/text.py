"""Entries and times as text and as JSON. Light on purpose: `kvwal get` imports it, and nothing that takes time to load."""

from __future__ import annotations

import base64
import os
import re
from datetime import datetime
from typing import Any

import msgspec

from kvwal.codecs import registry
from kvwal.entry import DataEntry
from kvwal.errors import CodecError, ConfigError
from kvwal.hlc import to_text, to_timestamp

_decode_json = msgspec.json.Decoder().decode
_encode_json = msgspec.json.Encoder().encode

KEY_CLASSES = ("str", "int", "float", "bool", "bytes", "none")


def codec_of(class_name: str) -> str:
    """The codec in an entry's class: the part behind the structure's name, where there is one."""
    return class_name.rpartition(":")[2]


def decoded(data: bytes, class_name: str) -> Any:
    """What the bytes hold. A class that only somebody's program knows is read as JSON if it is JSON, else left as bytes."""
    name = codec_of(class_name)
    if name in registry.by_name:
        return registry.decode(data, name)
    try:
        return _decode_json(data)
    except msgspec.DecodeError:
        return data


def shown(data: bytes, class_name: str) -> bytes:
    """A value for a terminal or a pipe: text and bytes as they are, anything else as JSON in one line."""
    value = decoded(data, class_name)
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else _encode_json(value)


def label(data: bytes, class_name: str) -> str:
    """A key or value for a table: what `shown` says, with bytes that are no text as hex."""
    value = shown(data, class_name)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Text for a terminal: characters that would steer it, turn its direction or end its line are shown, not sent."""
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)


def as_json(entry: DataEntry) -> dict[str, Any]:
    """An entry for a program. Timestamps are strings, because JSON's numbers end before them; bytes are base64 and say so."""
    found: dict[str, Any] = {"key_class": entry.key_class, "value_class": entry.value_class, "deleted": entry.deleted}
    for name, data, class_name in (("key", entry.key, entry.key_class), ("value", entry.value, entry.value_class)):
        if name == "value" and entry.deleted:
            found[name] = None
            continue
        content = decoded(data, class_name)
        if isinstance(content, bytes):
            found[f"{name}_encoding"] = "base64"
            content = base64.b64encode(content).decode()
        found[name] = content
    found |= {"timestamp": str(entry.timestamp), "time": to_text(entry.timestamp)}
    if entry.expires:
        found["expires"] = to_text(entry.expires << 16)
    return found


def line(content: Any) -> bytes:
    """Anything JSON-able as one line of JSON."""
    return _encode_json(content)


def is_text(typed: str) -> bool:
    """Whether what was typed is UTF-8."""
    try:
        typed.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(what: str, typed: str) -> str:
    """What was typed, if it is UTF-8, else a `ConfigError`."""
    if is_text(typed):
        return typed
    raise ConfigError(
        f"{what} {os.fsencode(typed)!r} is no UTF-8 text.",
        hint="Type text; a key of other bytes is one with --key-class bytes.",
    )


def parse_value(text: str) -> Any:
    """VALUE as the command line takes it: JSON where it is JSON, else the text itself, or its bytes where they are no text."""
    if not is_text(text):
        return os.fsencode(text)
    try:
        return _decode_json(text)
    except msgspec.DecodeError:
        return text


def parse_key(text: str, class_name: str) -> Any:
    """KEY as the command line takes it: text, or what `--key-class` says the text stands for."""
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


def parse_time(text: str) -> int:
    """The timestamp that a date and time, or a timestamp, stands for. Without a zone it is local time."""
    if text.isdecimal():
        return to_timestamp(int(text))
    try:
        return to_timestamp(datetime.fromisoformat(text))
    except ValueError as error:
        raise ConfigError(f"{text!r} is no time: {error}.", hint="Write 2025-01-31T12:00:00 or a timestamp.") from None
