"""Times as people type them."""

from __future__ import annotations

from datetime import datetime

from kvwal.errors import ConfigError
from kvwal.hlc import to_timestamp


def parse_time(text: str) -> int:
    """The timestamp that a date and time, or a timestamp, stands for. Without a zone it is local time."""
    if text.isdecimal():
        return int(text)
    try:
        return to_timestamp(datetime.fromisoformat(text))
    except ValueError as error:
        raise ConfigError(f"{text!r} is no time: {error}.", hint="Write 2025-01-31T12:00:00 or a timestamp.") from None
