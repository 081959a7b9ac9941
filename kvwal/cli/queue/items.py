"""Items and figures of queues for people and for programs."""

from __future__ import annotations

import base64
from typing import Any

from kvwal.cli.text import decoded
from kvwal.scrub.units import age
from kvwal.store.reading.queue_items import as_json as as_json
from kvwal.store.reading.queue_items import oldest_seconds as oldest_seconds
from kvwal.structures.queue.figures import QueueFigures


def value_of(data: bytes, class_name: str) -> Any:
    """The value of an item for JSON. Bytes are an object with `value_encoding`, as `kvwal scan --json` has them."""
    value = decoded(data, class_name)
    if isinstance(value, bytes):
        return {"value_encoding": "base64", "value": base64.b64encode(value).decode()}
    return value


def oldest_text(figures: QueueFigures) -> str:
    """The age of the oldest item, for people; empty without one."""
    seconds = oldest_seconds(figures)
    return "" if seconds is None else age(round(seconds))
