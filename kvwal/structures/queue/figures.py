"""Figures of a queue, counted over its items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kvwal.entry import DataEntry
from kvwal.structures.queue.positions import priority_of


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
