"""Records that earlier versions stored, brought to the form of today."""

from __future__ import annotations

from typing import Any

from kvwal.hlc import from_text

_TEXT_MOMENTS = {"stream": "started", "batch": "at"}
"""The moments that earlier versions stored as text, by kind."""


def current(value: Any) -> Any:
    """A stored object as this version stores it."""
    moment = _TEXT_MOMENTS.get(value.get("kind", "")) if isinstance(value, dict) else None
    if moment is None or not isinstance(value.get(moment), str):
        return value
    return {**value, moment: unix_ms(value[moment])}


def unix_ms(text: str) -> int:
    """A time as Spark's streams write it (ISO 8601) in Unix milliseconds; 0 for text that is no time."""
    try:
        moment = from_text(text)
    except ValueError:
        return 0
    return round(moment.timestamp() * 1_000)
