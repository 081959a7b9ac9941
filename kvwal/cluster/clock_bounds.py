"""Clock bounds: a member's clock stays below its published limit, and above the timestamps of former owners of its keys.

So the logs of two members agree on the order of changes. A member that takes over a key advances its clock past the latest
timestamp of each living member, and past the limit of each member that is gone. No member stamps at or above a limit that it has
not published.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ClusterUnreachable
from kvwal.hlc import HybridClock, to_text
from kvwal.ports.locks import Lock

AHEAD_MS = 1000
"""How far ahead of its wall clock a member's limit is."""
SPARE_MS = 2
"""How far ahead of its last timestamp the limit is at least: a millisecond has room for tens of thousands of transactions."""


STEP_MS = 1000
"""A wall clock that is further ahead than the elapsed time says has stepped."""
HOLD_SECONDS = 10.0
"""A step ahead counts when it has lasted this long. By then the other members' clocks have shown whether it is wrong."""


class SettledWall:
    """The wall clock of a member, for its bounds: a step ahead counts when it has lasted `HOLD_SECONDS` and is not in doubt.

    So a member whose clock is suddenly wrong stamps nothing from the future, and the next owners of its keys need not, either.
    Any thread may read it.
    """

    def __init__(self) -> None:
        self._offset: int | None = None
        self._stepped: float | None = None
        self._reading = Lock()

    def read(self, wall_ms: int, elapsed: float, *, in_doubt: bool = False) -> int:
        """The time of the wall clock that shows `wall_ms` now, at this elapsed time; without a step that is not settled yet.

        `in_doubt`: other members say that this clock is wrong.
        """
        passed = int(elapsed * 1000)
        with self._reading:
            offset = wall_ms - passed
            if self._offset is None or offset - self._offset <= STEP_MS:
                self._offset, self._stepped = offset, None
            elif self._stepped is None:
                self._stepped = elapsed
            elif elapsed - self._stepped >= HOLD_SECONDS and not in_doubt:
                self._offset, self._stepped = offset, None
            return passed + self._offset


def is_off(skews: Collection[float], most_seconds: float) -> bool:
    """Whether a member's clock is the wrong one. `skews` has for each other member how far its clock is ahead, in seconds.

    It is, if more than half of all members agree on another time. Of two members nobody can tell which of them is wrong.
    """
    others = sorted(skew for skew in skews if abs(skew) > most_seconds)
    majority = (len(skews) + 1) // 2 + 1
    return any(last - first <= most_seconds for first, last in zip(others, others[majority - 1 :], strict=False))


def may_join(skews: Collection[float], most_seconds: float) -> bool:
    """Whether a new member's clock fits. `skews` has for each older member how far its clock is ahead, in seconds.

    It fits if more than half of all members, the new one included, agree on its time. One wrong clock keeps no other member out.
    """
    agree = [skew for skew in skews if abs(skew) <= most_seconds]
    return 2 * (len(agree) + 1) > len(skews) + 1


class PublishedBound(msgspec.Struct, frozen=True, kw_only=True):
    """The last message of a member about its clock. `member` is the UUID that Hazelcast gave it at this start."""

    member: str
    limit: int
    """The member never stamps at or above this."""
    wall_ms: int
    """Its wall clock when it published this."""
    owned: str = "0"
    """The partitions of which it may have logged changes since its start: bits of a number, as hexadecimal digits."""
    archived: int = 0
    """The archive has all entries of its logs up to this timestamp."""


def above_former_owners(bounds: Iterable[PublishedBound], latest: Mapping[str, int]) -> int:
    """A timestamp above all that the members with these bounds have given to partitions which they do not own any more.

    `latest` has the latest timestamps of the members that could be asked, by their UUIDs. Only the limit is known of the others.
    """
    limits = (bound.limit for bound in bounds if bound.member not in latest)
    return max([*limits, *(timestamp + 1 for timestamp in latest.values())], default=0)


class ClockBounds:
    """The bounds that all logs of a member share. Before the first `allow` there is no limit: no other member has the keys."""

    def __init__(self, latest: memoryview | None = None) -> None:
        """`latest` is a place of 8 bytes for the latest timestamp, which another language reads. It holds 0."""
        self._latest = memoryview(bytearray(8) if latest is None else latest).cast("B").cast("q")
        self._low_watermark = 0
        self._limit: int | None = None
        self._changing = Lock()

    @property
    def latest(self) -> int:
        """The greatest timestamp that a log of this member has given, recovered ones included."""
        return self._latest[0]

    def next_limit(self, wall_ms: int, above: int = 0) -> int:
        """The limit to publish next, with room above `above`."""
        least = max(self.latest, self._low_watermark, above) + (SPARE_MS << TIMESTAMP_SHIFT)
        return max(least, wall_ms + AHEAD_MS << TIMESTAMP_SHIFT, self._limit or 0)

    def allow(self, limit: int) -> None:
        """The others know of this limit now."""
        self._limit = max(limit, self._limit or 0)

    def rise(self, timestamp: int) -> None:
        """Never stamp below `timestamp` from now on. A limit above it was allowed before, or there is no limit.

        Any thread may call it.
        """
        with self._changing:
            self._low_watermark = max(self._low_watermark, timestamp)

    def settle(self, wall_ms: int, least: int = 0) -> int:
        """The low watermark: a timestamp below all later ones, of logs that are not there yet, too.

        It is just below the wall clock, or `least` if that is later, and below the limit in any case.
        """
        following = max(wall_ms << TIMESTAMP_SHIFT, least + 1)
        if self._limit is not None:
            following = min(following, self._limit - (SPARE_MS << TIMESTAMP_SHIFT))
        self.rise(following)
        return self._low_watermark - 1

    def stamp(self, last: int, wall_ms: int) -> int:
        """The timestamp after `last`. `ClusterUnreachable` if it would reach the limit. Any thread may call it."""
        wall = wall_ms << TIMESTAMP_SHIFT
        if self._limit is not None:
            wall = min(wall, self._limit - (SPARE_MS << TIMESTAMP_SHIFT))
        stamp = max(last + 1, self._low_watermark, wall)
        if self._limit is not None and stamp >= self._limit:
            raise ClusterUnreachable(
                f"this member's clock may not pass {to_text(self._limit)}, which is what the others know of it: they could not be"
                " told of a later time; nothing was written.",
                hint="It tries again all the time. If it goes on, look at the network between the members.",
            )
        self.stamped(stamp)
        return stamp

    def stamped(self, timestamp: int) -> None:
        """A log has given this timestamp: `latest` is not below it from now on. Any thread may call it."""
        with self._changing:
            self._latest[0] = max(self._latest[0], timestamp)


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
        self._bounds.stamped(timestamp)
