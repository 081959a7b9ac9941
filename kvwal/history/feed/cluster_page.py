"""The order of a cluster's changes: which changes of several logs a page of a watch has. Pure functions.

Each member tells a floor: a timestamp that it will never stamp at or below again. The least floor is the limit: up to it the logs
are complete, so their changes have one order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from operator import attrgetter
from typing import NamedTuple

from kvwal.entry import is_change
from kvwal.structures.watch import Change, Positions


class LogEnd(NamedTuple):
    """What a member told of its log: its floor, and its last sequence (None without a log) with its timestamp."""

    floor: int
    last: int | None
    timestamp: int

    def has_news(self, position: int) -> bool:
        """Whether the log has entries behind `position`."""
        return self.last is not None and self.last > position


class LogPart(NamedTuple):
    """Changes of one log up to the limit, in order. `more`: the log has further ones up to the limit."""

    changes: Sequence[Change]
    more: bool


class ClusterPage(NamedTuple):
    """A page of a watch, and the positions behind it."""

    changes: list[Change]
    positions: Positions


def limit_of(ends: Mapping[str, LogEnd]) -> int:
    """The timestamp up to which the logs of all members are complete."""
    return min(end.floor for end in ends.values())


def to_raise(ends: Mapping[str, LogEnd], positions: Positions) -> tuple[int, list[str]]:
    """The timestamp of the newest entry that was not given yet, and the members whose floor is below it, sorted."""
    newest = max((end.timestamp for node, end in ends.items() if end.has_news(positions.get(node, 0))), default=0)
    return newest, sorted(node for node, end in ends.items() if end.floor < newest)


def page_of(parts: Iterable[LogPart], positions: Positions, since: int) -> ClusterPage:
    """The changes of all parts in the order of (timestamp, node, sequence), those after the timestamp `since`.

    A part with more rows ends the page at its last change: a later change of another part may come behind one of that part that
    was not read yet. Of several such parts, the earliest end counts.
    """
    parts = list(parts)
    ends = [part.changes[-1].order for part in parts if part.more]
    end = min(ends, default=None)
    ordered = merge(*(part.changes for part in parts), key=attrgetter("order"))
    taken = [change for change in ordered if end is None or change.order <= end]
    after = positions | {change.node: change.sequence for change in taken}
    return ClusterPage([c for c in taken if c.entry.timestamp > since and is_change(c.entry)], after)
