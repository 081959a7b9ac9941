"""Entries as JSON, and times as text: what the command line and the console print and read alike.

`kvwal get` loads this module, so it imports nothing that takes long to load.
"""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from typing import Any

from kvwal.config import parse_duration
from kvwal.entry import EPOCH, TIMESTAMP_SHIFT, DataEntry
from kvwal.errors import ConfigError
from kvwal.hlc import FIRST_TIMESTAMP, from_text, to_text, to_timestamp
from kvwal.ports.clock import SYSTEM
from kvwal.sql.text import decoded, decoded_key

_PRINTED = re.compile(r"(.+Z)\+([0-9]{1,5})")
"""A timestamp as it is printed if it is not the first one of its millisecond."""


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
