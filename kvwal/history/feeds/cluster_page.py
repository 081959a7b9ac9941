"""The order of a cluster's changes: which changes of several logs a page of a watch has. Pure functions.

Each member tells its low watermark: a timestamp that it will never stamp at or below again. The least one is the limit:
up to it the logs are complete, so their changes have one order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from kvwal.history.reads.structure_rows import is_part_of
from kvwal.key_class import OWN_MAP
from kvwal.structures.watch import Change, Positions


class LogBounds(NamedTuple):
    """What a member told of its log: its low watermark, and its last sequence (None without a log) with its timestamp."""

    low_watermark: int
    last: int | None
    timestamp: int

    def has_news(self, position: int) -> bool:
        """Whether the log has entries after `position`."""
        return self.last is not None and self.last > position


class LogPart(NamedTuple):
    """Changes of one log up to the limit, in order. `more`: the log has further ones up to the limit."""

    changes: Sequence[Change]
    more: bool


class ClusterPage(NamedTuple):
    """A page of a watch, and the positions after it."""

    changes: list[Change]
    positions: Positions


def limit_of(ends: Mapping[str, LogBounds]) -> int:
    """The timestamp up to which the logs of all members are complete."""
    return min(end.low_watermark for end in ends.values())


def to_raise(ends: Mapping[str, LogBounds], positions: Positions) -> tuple[int, list[str]]:
    """The timestamp of the newest entry that was not given yet, and the members whose low watermark is below it, sorted."""
    newest = max((end.timestamp for node, end in ends.items() if end.has_news(positions.get(node, 0))), default=0)
    return newest, sorted(node for node, end in ends.items() if end.low_watermark < newest)


def page_of(parts: Iterable[LogPart], positions: Positions, since: int, structure: str = OWN_MAP) -> ClusterPage:
    """The changes of a structure in all parts in the order of (timestamp, node, sequence), those after the timestamp `since`.

    A change with a timestamp below that of an earlier change of its log, as a merge of nodes leaves it, counts as if it had that
    one's: each log is read in its order, so that a position says what was given. A part with more rows ends the page at its last
    change: a later change of another part may come after one of that part that was not read yet. Of several such parts, the
    earliest end counts.
    """
    ordered = [(_in_log_order(part.changes), part.more) for part in parts]
    ends = [changes[-1][0] for changes, more in ordered if more]
    end = min(ends, default=None)
    merged = merge(*(changes for changes, _ in ordered), key=itemgetter(0))
    taken = [change for order, change in merged if end is None or order <= end]
    after = positions | {change.node: change.sequence for change in taken}
    changes = [c for c in taken if c.entry.timestamp > since and is_part_of(c.entry.key_class, structure)]
    return ClusterPage(changes, after)


def _in_log_order(changes: Sequence[Change]) -> list[tuple[tuple[int, str, int], Change]]:
    """The changes of one log, each with its place in the order of all logs, which ascends along the log."""
    greatest = accumulate((change.entry.timestamp for change in changes), max)
    return [((reached, *change.order[1:]), change) for reached, change in zip(greatest, changes, strict=True)]
