"""Entries and times as text and as JSON.

`kvwal get` loads this module, so it imports nothing that takes long to load.
"""

from __future__ import annotations

import base64
import os
import re
from datetime import timedelta
from typing import Any

import msgspec

from kvwal.config import parse_duration
from kvwal.entry import EPOCH, TIMESTAMP_SHIFT, DataEntry
from kvwal.errors import ConfigError
from kvwal.hlc import FIRST_TIMESTAMP, from_text, to_text, to_timestamp
from kvwal.key_text import KEY_CLASSES, from_plain
from kvwal.ports.clock import SYSTEM
from kvwal.sql.text import decoded as decoded
from kvwal.sql.text import decoded_key as decoded_key
from kvwal.sql.text import encode_json
from kvwal.sql.text import key_label as key_label
from kvwal.sql.text import label as label
from kvwal.sql.text import shown as shown

_decode_json = msgspec.json.Decoder().decode

_PRINTED = re.compile(r"(.+Z)\+([0-9]{1,5})")
"""A timestamp as it is printed if it is not the first one of its millisecond."""
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
        content = decoded_key(data, class_name) if name == "key" else decoded(data, class_name)
        if isinstance(content, bytes):
            fields[f"{name}_encoding"] = "base64"
            content = base64.b64encode(content).decode()
        fields[name] = content
    fields |= {"timestamp": str(entry.timestamp), "time": to_text(entry.timestamp)}
    if entry.expires:
        fields["expires"] = to_text(entry.expires << TIMESTAMP_SHIFT)
    return fields


def line(content: Any) -> bytes:
    """Content as one line of JSON, infinity as the text `Infinity`."""
    return encode_json(content)


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
    if class_name not in KEY_CLASSES:
        raise ConfigError(
            f"--key-class {class_name} is no class of keys.", hint=f"Choose one of {', '.join(KEY_CLASSES)}."
        )
    return from_plain(check_text("the key", text) if class_name == "str" else text, class_name)


def parse_moment(text: str) -> int:
    """Timestamp of a typed time, as `parse_time` takes it, or of the moment a typed duration (90m, 24h, 7d) ago."""
    ago = parse_duration(text)
    timestamp = (
        parse_time(text)
        if ago is None
        else to_timestamp(EPOCH + timedelta(milliseconds=max(0, SYSTEM.wall_ms() - round(ago * 1_000))))
    )
    if timestamp < FIRST_TIMESTAMP:
        raise ConfigError(f"{text!r} is before the year 2000, and no store is so old.", hint="Check the time.")
    return timestamp


def moment_text(timestamp: int) -> str:
    """The time of a timestamp that was typed as a time: without the counter."""
    return to_text(timestamp >> TIMESTAMP_SHIFT << TIMESTAMP_SHIFT)


def parse_time(text: str) -> int:
    """Timestamp of a typed date and time, or of a typed timestamp, also in the form in which timestamps are printed.

    A time is the end of its millisecond. Without a zone it is UTC.
    """
    if text.isdecimal():
        return to_timestamp(int(text))
    if (printed := _PRINTED.fullmatch(text)) and int(printed[2]) < 1 << TIMESTAMP_SHIFT:
        return parse_time(printed[1]) >> TIMESTAMP_SHIFT << TIMESTAMP_SHIFT | int(printed[2])
    try:
        return to_timestamp(from_text(text))
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is no time: {error}.",
            hint="Write 2025-01-31T12:00:00 (UTC), 2025-01-31T12:00:00+05:30, or a timestamp.",
        ) from None
