"""Items of queues as JSON, and the age of the oldest one."""

from __future__ import annotations

import base64
from typing import Any

from kvwal.entry import TIMESTAMP_SHIFT, DataEntry
from kvwal.hlc import to_text
from kvwal.ports.clock import SYSTEM
from kvwal.sql.text import decoded
from kvwal.structures.queue.deliveries import NOT_DELIVERED, Delivery
from kvwal.structures.queue.figures import QueueFigures
from kvwal.structures.queue.positions import position_of, priority_of


def as_json(item: DataEntry, known: Delivery = NOT_DELIVERED) -> dict[str, Any]:
    """Fields of an item, for a program. Timestamp and position are strings: they are too large for JSON's numbers.

    `known` is what is known of its deliveries.
    """
    value = decoded(item.value, item.value_class)
    fields: dict[str, Any] = {
        "priority": priority_of(item.key),
        "position": str(position_of(item.key)),
        "timestamp": str(item.timestamp),
        "time": to_text(item.timestamp),
    }
    if item.expires:
        fields["expires"] = to_text(item.expires << TIMESTAMP_SHIFT)
    if known.deliveries:
        fields["deliveries"] = known.deliveries
    if known.due:
        fields["due"] = to_text(known.due << TIMESTAMP_SHIFT)
    if isinstance(value, bytes):
        return fields | {"value_encoding": "base64", "value": base64.b64encode(value).decode()}
    return fields | {"value": value}


def oldest_seconds(figures: QueueFigures) -> float | None:
    """The age of the oldest item; None without one."""
    if not figures.oldest:
        return None
    return max(0, SYSTEM.wall_ms() - (figures.oldest >> TIMESTAMP_SHIFT)) / 1000
