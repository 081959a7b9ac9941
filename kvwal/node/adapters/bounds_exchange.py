"""Clock bounds exchange: members publish bounds of their clocks, and measure how far their clocks are apart."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from kvwal.cluster.clock_bounds import (
    ClockBounds,
    PublishedBound,
    SettledWall,
    above_former_owners,
    is_off,
    may_join,
)
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ClockSkew, ClusterUnreachable
from kvwal.node.adapters.live_members import Membership, Peer
from kvwal.ports.boundary import start_task, when_done
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.retries import poll_until, retry_awaiting
from kvwal.ports.tasks import ThreadWorkers

T = TypeVar("T")
PUBLISH_SECONDS = 0.5
"""Each bound goes `AHEAD_MS` ahead: the next one has to come before."""
_AGAIN_SECONDS = 0.25
TIMER, TAKEOVER = "timer", "takeover"
"""A member has two bounds, and the greater one counts. One thread publishes each, so none is published out of order."""


class ClockBoundsExchange:
    """The exchange of one member. Used on the node's event loop.

    `skew_seconds`: of the other members' clocks, the one that differs most; positive if it is ahead of this one.
    """

    def __init__(
        self, membership: Membership, bounds: ClockBounds, fence: Any, clock: Clock, archived: Callable[[int], int]
    ) -> None:
        """`fence` is OwnershipFence.java. `archived` gives, at a time of its clock, the timestamp up to which the archive has all
        of this member's logs."""
        self.skew_seconds = 0.0
        self._archived = archived
        self._archived_before = 0
        self._membership = membership
        self._bounds = bounds
        self._fence = fence
        self._clock = clock
        self._wall = SettledWall()
        self._most_seconds: float | None = None
        self._workers = {name: ThreadWorkers(f"kvwal-{name}", 1) for name in (TIMER, TAKEOVER)}
        self._logger = get_logger(__name__).bind(node=membership.own.name)
        self._walls: dict[str, int] = {}
        self._skews: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, most_seconds: float, *, new_root: bool) -> None:
        """Take part: from now on every timestamp of this member stays below the bound that the others know.

        With `new_root` the disk of a member of this name may be lost: what that one served is adopted, though it left in order.
        Returns when the clocks of all older members are compared with this one. `ClockSkew` if too many of them differ by more
        than `most_seconds`: see `may_join`. Until then this member's clock is in no bound that it publishes.
        """
        await self._patiently(TAKEOVER, partial(self._rise_at_start, new_root=new_root))
        await self._patiently(TIMER, partial(self._publish, TIMER))
        self._begin(self._keep_publishing())
        await poll_until(operator.not_, partial(self._patiently, TIMER, self._unsure), pause=_AGAIN_SECONDS)
        self._check(await self._patiently(TIMER, self._elder), most_seconds)
        self._most_seconds = most_seconds
        await self._patiently(TIMER, partial(self._publish, TIMER))

    def is_off(self) -> bool:
        """Whether more than half of all members agree on a time that is too far from this member's clock."""
        return self._most_seconds is not None and is_off(list(self._skews.values()), self._most_seconds)

    def serve(self) -> None:
        """Let changes pass the fence: each when the former owner of its partition has stopped, and this clock is ahead."""
        self._begin(self._keep_passing())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_task(work, self._stopped)
        when_done(task, lambda _: self._fence.close(), self._stopped)
        self._tasks.append(task)

    def lead_seconds(self) -> float:
        """How far ahead of this machine's clock the newest timestamp of this member is; 0 if it is not ahead."""
        return max(0, (self._bounds.latest >> TIMESTAMP_SHIFT) - self._clock.wall_ms()) / 1000

    def archived_of(self, node: str) -> int:
        """The archive has all entries of a lost member's logs up to this timestamp; 0 if no member knows. For any thread.

        Of this member's own name it is what the member told that had the name before.
        """
        return self._archived_before if node == self._membership.own.name else self._told_archived(node)

    def _told_archived(self, node: str) -> int:
        return max(
            (known.bound.archived for known in self._membership.published_bounds() if known.name == node), default=0
        )

    async def rise(self, timestamp: int) -> None:
        """Returns when all timestamps of this member are above `timestamp`. Not to be called after `serve`."""
        await self._patiently(TAKEOVER, partial(self._rise_above, timestamp + 1))

    async def end(self) -> None:
        """Take part no more: pending writes are refused."""
        self._fence.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for workers in self._workers.values():
            workers.close()

    def _stopped(self, error: BaseException) -> None:
        """Log the bug that has stopped the exchange. The fence is closed, so no write waits for ever."""
        self._logger.error("the limits of clocks have stopped; start this node again", exc_info=error)

    def _check(self, elder: list[Peer], most_seconds: float) -> None:
        skews = {peer: self._skews.get(peer.member, 0.0) for peer in elder}
        if may_join(list(skews.values()), most_seconds):
            return
        peer, skew = max(skews.items(), key=lambda each: abs(each[1]))
        raise ClockSkew(
            f"this machine's clock is {abs(skew):.1f} s {'behind' if skew > 0 else 'ahead of'} that of the member"
            f" {peer.name} at {peer.address}, and {most_seconds:g} s is the most.",
            hint="Mend the one that is wrong (NTP), and start this node again.",
        )

    async def _keep_publishing(self) -> None:
        while True:
            await self._patiently(TIMER, self._look)
            await asyncio.sleep(PUBLISH_SECONDS)

    async def _keep_passing(self) -> None:
        while await self._run(TAKEOVER, self._fence.await_):
            if self._fence.isTakeOver():
                await self._until_leases_end()
            await self._patiently(TAKEOVER, self._pass)

    async def _until_leases_end(self) -> None:
        while seconds := await self._patiently(TAKEOVER, self._membership.lease_seconds):
            await asyncio.sleep(seconds)

    def _look(self) -> None:
        self._publish(TIMER)
        self._measure()

    def _pass(self) -> None:
        """Advance the clock past the former owners of the partitions that were taken over, if any were.

        A living one is asked for its latest timestamp: it gives no more to these partitions. Another one stamps nothing any more.
        """
        if self._fence.isTakeOver():
            latest = self._membership.latest_timestamps()  # asked before the limits are read: a member may go meanwhile
            self._rise(above_former_owners(self._others(), latest))
        else:
            self._publish(TAKEOVER)  # the limit may have stood still while the member that went could not be told
        self._fence.clear()

    def _others(self) -> list[PublishedBound]:
        """The bounds of all but this member, those of members that went included."""
        own = self._membership.own.member
        return [known.bound for known in self._membership.published_bounds() if known.bound.member != own]

    def _rise_at_start(self, *, new_root: bool) -> None:
        """Note this member's own orphans before it publishes a new bound: if it was killed, its old bound has its partitions."""
        self._membership.refresh_bounds()
        self._archived_before = self._told_archived(self._membership.own.name)
        if (quorum := self._membership.quorum()) is not None:
            self._membership.note_orphans([*quorum.names, self._membership.own.name] if new_root else quorum.names)
        # Before the old bound goes: from then on the others know of it only by the latest timestamp of this member.
        # What its own logs hold counts, too: the others may have forgotten the bound that was above it.
        before = max(self._above_members_that_went(), self._bounds.latest + 1)
        self._bounds.rise(before)
        self._fence.rise(before)
        self._publish(TAKEOVER)

    def _rise_above(self, timestamp: int) -> None:
        """Rise above `timestamp` and the limits of members that went. This member owns nothing of the living ones yet."""
        self._membership.refresh_bounds()
        self._rise(max(timestamp, self._above_members_that_went()))

    def _above_members_that_went(self) -> int:
        living = {peer.member for peer in self._membership.living()}
        return above_former_owners((bound for bound in self._others() if bound.member not in living), {})

    def _rise(self, timestamp: int) -> None:
        self._publish(TAKEOVER, timestamp)
        self._bounds.rise(timestamp)
        self._fence.rise(timestamp)

    def _publish(self, which: str, above: int = 0) -> None:
        wall = self._clock.wall_ms()
        settled = self._settled(wall)
        limit = self._bounds.next_limit(settled, above)
        owned = str(self._fence.owned())
        own = self._membership.own
        archived = self._archived(settled) if settled else 0
        bound = PublishedBound(member=own.member, limit=limit, wall_ms=wall, owned=owned, archived=archived)
        self._membership.publish_bound(which, bound)
        self._bounds.allow(limit)

    def _settled(self, wall_ms: int) -> int:
        """The wall clock as far as it is not in doubt: 0 before it was compared with those of the others."""
        if self._most_seconds is None:
            return 0
        return self._wall.read(wall_ms, self._clock.elapsed(), in_doubt=self.is_off())

    def _measure(self) -> None:
        """Compare this clock with the wall clocks that the others have published since the last look, when they came here."""
        known, wall = self._membership.published_bounds(), self._clock.wall_ms()
        for which, _, age, bound in known:
            if which != TIMER:
                continue
            if self._walls.get(bound.member, bound.wall_ms) != bound.wall_ms:
                self._skews[bound.member] = (bound.wall_ms - (wall - age)) / 1000
            self._walls[bound.member] = bound.wall_ms
        own = self._membership.own.member
        living = {peer.member for peer in self._membership.living()} - {own}
        self._skews = {member: skew for member, skew in self._skews.items() if member in living}
        self.skew_seconds = max(self._skews.values(), key=abs, default=0.0)

    def _elder(self) -> list[Peer]:
        living = self._membership.living()
        return living[: [peer.member for peer in living].index(self._membership.own.member)]

    def _unsure(self) -> list[str]:
        """The older members whose clocks were not measured yet."""
        unsure = [peer.name for peer in self._elder() if peer.member not in self._skews]
        if unsure:
            self._logger.debug("waiting for the clocks of others", members=unsure)
        return unsure

    async def _run(self, which: str, call: Callable[[], T]) -> T:
        return await self._workers[which].run(call)

    async def _patiently(self, which: str, call: Callable[[], T]) -> T:
        """The result of a call on one of the threads, which is made again while the other members cannot be asked."""
        return await retry_awaiting(
            partial(self._workers[which].run, call), (ClusterUnreachable,), self._not_asked, pause=_AGAIN_SECONDS
        )

    def _not_asked(self, error: Exception) -> None:
        self._logger.warning("the other members could not be asked", error=str(error))
