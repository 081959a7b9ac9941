"""Clock bounds exchange: members publish bounds of their clocks, and measure how far their clocks are apart."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from kvwal.cluster.clock_bounds import ClockBounds, PublishedBound
from kvwal.errors import ClockSkew, ClusterUnreachable
from kvwal.node.adapters.membership import Membership, Peer
from kvwal.node.retries import poll_until, retry_on
from kvwal.ports.boundary import start_task, when_done
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import ThreadWorkers

T = TypeVar("T")
PUBLISH_SECONDS = 0.25
TIMER, TAKEOVER = "timer", "takeover"
"""A member has two bounds, and the greater one counts. One thread publishes each, so none is published out of order."""


class ClockBoundsExchange:
    """The exchange of one member. Used on the node's event loop.

    `skew_seconds`: of the other members' clocks, the one that differs most; positive if it is ahead of this one.
    """

    def __init__(self, membership: Membership, bounds: ClockBounds, fence: Any, clock: Clock) -> None:
        """`fence` is OwnershipFence.java."""
        self.skew_seconds = 0.0
        self._membership = membership
        self._bounds = bounds
        self._fence = fence
        self._clock = clock
        self._workers = {name: ThreadWorkers(f"kvwal-{name}", 1) for name in (TIMER, TAKEOVER)}
        self._logger = get_logger(__name__).bind(node=membership.own.name)
        self._walls: dict[str, int] = {}
        self._skews: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, most_seconds: float) -> None:
        """Take part: from now on every timestamp of this member stays below the bound that the others know.

        Returns when the clocks of all older members are compared with this one. `ClockSkew` if one of them differs by more than
        `most_seconds`.
        """
        await self._patiently(TAKEOVER, self._rise_at_start)
        await self._patiently(TIMER, partial(self._publish, TIMER))
        self._begin(self._keep_publishing())
        await poll_until(operator.not_, partial(self._patiently, TIMER, self._unsure), pause=PUBLISH_SECONDS)
        for peer in await self._patiently(TIMER, self._elder):
            self._check(peer, most_seconds)

    def serve(self) -> None:
        """Let changes pass the fence: each when the former owner of its partition has stopped, and this clock is ahead."""
        self._begin(self._keep_passing())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_task(work, self._stopped)
        when_done(task, lambda _: self._fence.close(), self._stopped)
        self._tasks.append(task)

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

    def _check(self, peer: Peer, most_seconds: float) -> None:
        skew = self._skews.get(peer.member, 0.0)
        if abs(skew) > most_seconds:
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
        """Rise above the bounds of all former owners: each has published its bound, or stamps nothing any more."""
        own = self._membership.own.member
        limits = [bound.limit for _, _, bound in self._membership.published_bounds() if bound.member != own]
        self._rise(max(limits, default=0))
        self._fence.clear()

    def _rise_at_start(self) -> None:
        """Note this member's own orphans before it publishes a new bound: if it was killed, its old bound has its partitions."""
        self._membership.refresh_bounds()
        if (quorum := self._membership.quorum()) is not None:
            self._membership.note_orphans(quorum.names)
        self._rise_above(0)

    def _rise_above(self, timestamp: int) -> None:
        self._membership.refresh_bounds()
        self._rise(max([timestamp, *(bound.limit for _, _, bound in self._membership.published_bounds())]))

    def _rise(self, timestamp: int) -> None:
        self._publish(TAKEOVER, timestamp)
        self._bounds.rise(timestamp)
        self._fence.rise(timestamp)

    def _publish(self, which: str, floor: int = 0) -> None:
        wall = self._clock.wall_ms()
        limit = self._bounds.next_limit(wall, floor)
        owned = str(self._fence.owned())
        own = self._membership.own
        self._membership.publish_bound(which, PublishedBound(member=own.member, limit=limit, wall_ms=wall, owned=owned))
        self._bounds.allow(limit)

    def _measure(self) -> None:
        """Compare this clock with the wall clocks that the others have just published, exact to the time between two looks."""
        walls = {
            bound.member: bound.wall_ms for which, _, bound in self._membership.published_bounds() if which == TIMER
        }
        wall = self._clock.wall_ms()
        for member, there in walls.items():
            if member in self._walls and there != self._walls[member]:
                self._skews[member] = (there - wall) / 1000
            self._walls[member] = there
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
        return await retry_on(
            partial(self._workers[which].run, call), (ClusterUnreachable,), self._not_asked, pause=PUBLISH_SECONDS
        )

    def _not_asked(self, error: Exception) -> None:
        self._logger.warning("the other members could not be asked", error=str(error))
