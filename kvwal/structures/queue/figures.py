"""Figures of a queue: counted over its items, or those that the process that holds it has at hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from kvwal.entry import TIMESTAMP_SHIFT, DataEntry
from kvwal.structures.queue.positions import priority_of
from kvwal.structures.queue.state import QueueState


class QueueFigures(NamedTuple):
    """The figures of one queue.

    `size` is the bytes of the values. `oldest` is the least timestamp of an item, 0 without one. `by_priority` has the number of
    items of each priority, in the order of takes.
    """

    items: int
    size: int
    oldest: int
    by_priority: dict[int, int]


def figures_of(items: Iterable[DataEntry]) -> QueueFigures:
    """The figures of these items of one queue. No item is kept."""
    size = oldest = 0
    priorities: Counter[int] = Counter()
    for item in items:
        size += len(item.value)
        oldest = min(oldest or item.timestamp, item.timestamp)
        priorities[priority_of(item.key)] += 1
    return QueueFigures(priorities.total(), size, oldest, dict(sorted(priorities.items())))


def stats_of(state: QueueState, now_ms: int) -> dict[str, Any]:
    """The figures of a queue in memory, without a look at its items; JSON can hold them.

    `items` are those that can be taken. `oldest_seconds` is how long ago the oldest of them was put, None without one. `bytes`
    are those of the values, also of the items in flight.
    """
    oldest = state.oldest
    return {
        "items": state.count(),
        "in_flight": state.in_flight,
        "bytes": state.size,
        "oldest_seconds": max(0, now_ms - (oldest >> TIMESTAMP_SHIFT)) / 1000 if oldest else None,
    }
