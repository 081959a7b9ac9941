"""Clock bounds: a member's clock stays below the limit that it has published, and above the limits of former owners of its keys.

So the logs of two members agree on the order of changes. A member that takes over a key advances its clock past every published
limit, that of a killed member included, and no member stamps at or above a limit that it has not published.
"""

from __future__ import annotations

import msgspec

from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ClusterUnreachable
from kvwal.hlc import HybridClock, to_text
from kvwal.ports.locks import Lock

AHEAD_MS = 1000
"""How far ahead of its wall clock a member's limit is."""
SPARE_MS = 2
"""How far ahead of its last timestamp the limit is at least: a millisecond has room for tens of thousands of transactions."""


class PublishedBound(msgspec.Struct, frozen=True, kw_only=True):
    """The last message of a member about its clock. `member` is the UUID that Hazelcast gave it at this start."""

    member: str
    limit: int
    """The member never stamps at or above this."""
    wall_ms: int
    """Its wall clock when it published this."""
    owned: str = "0"
    """The partitions of which it may have logged changes since its start: bits of a number, as hexadecimal digits."""


class ClockBounds:
    """The bounds that all logs of a member share. Before the first `allow` there is no limit: no other member has the keys."""

    def __init__(self) -> None:
        self.latest = 0
        self._floor = 0
        self._limit: int | None = None
        self._rising = Lock()

    def next_limit(self, wall_ms: int, floor: int = 0) -> int:
        """The limit to publish next, with room above `floor`."""
        least = max(self.latest, self._floor, floor) + (SPARE_MS << TIMESTAMP_SHIFT)
        return max(least, wall_ms + AHEAD_MS << TIMESTAMP_SHIFT, self._limit or 0)

    def allow(self, limit: int) -> None:
        """The others know of this limit now."""
        self._limit = max(limit, self._limit or 0)

    def rise(self, timestamp: int) -> None:
        """Never stamp below `timestamp` from now on. A limit above it was allowed before, or there is no limit.

        Any thread may call it.
        """
        with self._rising:
            self._floor = max(self._floor, timestamp)

    def settle(self, wall_ms: int, least: int = 0) -> int:
        """A floor: a timestamp below all later ones, of logs that are not there yet, too.

        It is just below the wall clock, or `least` if that is later, and below the limit in any case.
        """
        following = max(wall_ms << TIMESTAMP_SHIFT, least + 1)
        if self._limit is not None:
            following = min(following, self._limit - (SPARE_MS << TIMESTAMP_SHIFT))
        self.rise(following)
        return self._floor - 1

    def stamp(self, last: int, wall_ms: int) -> int:
        """The timestamp after `last`. `ClusterUnreachable` if it would reach the limit."""
        wall = wall_ms << TIMESTAMP_SHIFT
        if self._limit is not None:
            wall = min(wall, self._limit - (SPARE_MS << TIMESTAMP_SHIFT))
        stamp = max(last + 1, self._floor, wall)
        if self._limit is not None and stamp >= self._limit:
            raise ClusterUnreachable(
                f"this member's clock may not pass {to_text(self._limit)}, which is what the others know of it: they could not be"
                " told of a later time; nothing was written.",
                hint="It tries again all the time. If it goes on, look at the network between the members.",
            )
        self.latest = max(self.latest, stamp)
        return stamp


class BoundedClock(HybridClock):
    """The clock of one log of a member."""

    def __init__(self, bounds: ClockBounds) -> None:
        super().__init__()
        self._bounds = bounds

    def stamp(self, wall_ms: int) -> int:
        """See `HybridClock.stamp`, within the bounds. `ClusterUnreachable` if they leave no room."""
        self.last = self._bounds.stamp(self.last, wall_ms)
        return self.last

    def advance(self, timestamp: int) -> None:
        """See `HybridClock.advance`."""
        super().advance(timestamp)
        self._bounds.latest = max(self._bounds.latest, timestamp)
