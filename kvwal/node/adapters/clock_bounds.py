"""A member's clock among those of the others: the limits that they tell each other, and how far their clocks are apart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from kvwal.cluster.clock_bounds import ClockBounds, PublishedBound
from kvwal.errors import ClockSkew, ClusterUnreachable
from kvwal.node.adapters.membership import Membership, Peer
from kvwal.ports.boundary import start_task, when_done
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import ThreadWorkers

T = TypeVar("T")
TELL_SECONDS = 0.25
TIMER, TAKEOVER = "timer", "takeover"
"""A member has two limits of which the greater counts, each told by one thread only, so that none is told out of order."""


class ClockBoundsExchange:
    """Used on the node's event loop. `skew_seconds` is by how much the clock that is furthest off is ahead of this one's."""

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
        """Take part: from now on every timestamp stays below what the others know.

        Returns when it is known how far the clocks of the members that were there before are off. `ClockSkew` if that is more
        than `most_seconds`.
        """
        await self._patiently(partial(self._run, TAKEOVER, self._rise_at_start))
        await self._patiently(partial(self._run, TIMER, partial(self._tell, TIMER)))
        self._begin(self._keep_telling())
        while unknown := await self._patiently(partial(self._run, TIMER, self._unsure)):
            self._logger.debug("waiting for the clocks of others", members=unknown)
            await asyncio.sleep(TELL_SECONDS)
        for peer in await self._patiently(partial(self._run, TIMER, self._elder)):
            self._check(peer, most_seconds)

    def serve(self) -> None:
        """Let changes pass, each once whoever owned its partition before has stopped to serve it, and the clock is ahead."""
        self._begin(self._keep_passing())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_task(work, self._stopped)
        when_done(task, lambda _: self._fence.close(), self._stopped)
        self._tasks.append(task)

    async def rise(self, timestamp: int) -> None:
        """Returns when everything is stamped above `timestamp`. Not to be called after `serve`."""
        await self._patiently(partial(self._run, TAKEOVER, partial(self._rise_above, timestamp)))

    async def end(self) -> None:
        """Take part no more: whoever waits to write is refused."""
        self._fence.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for workers in self._workers.values():
            workers.close()

    def _stopped(self, error: BaseException) -> None:
        """Should a bug have stopped it, nobody may wait for ever."""
        self._logger.error("the limits of clocks have stopped; start this node again", exc_info=error)

    def _check(self, peer: Peer, most_seconds: float) -> None:
        skew = self._skews.get(peer.member, 0.0)
        if abs(skew) > most_seconds:
            raise ClockSkew(
                f"this machine's clock is {abs(skew):.1f} s {'behind' if skew > 0 else 'ahead of'} that of the member"
                f" {peer.name} at {peer.address}, and {most_seconds:g} s is the most.",
                hint="Mend the one that is wrong (NTP), and start this node again.",
            )

    async def _keep_telling(self) -> None:
        while True:
            await self._patiently(partial(self._run, TIMER, self._look))
            await asyncio.sleep(TELL_SECONDS)

    async def _keep_passing(self) -> None:
        while await self._run(TAKEOVER, self._fence.await_):
            if self._fence.isTakeOver():
                await self._until_leases_end()
            await self._patiently(partial(self._run, TAKEOVER, self._pass))

    async def _until_leases_end(self) -> None:
        while seconds := await self._patiently(partial(self._run, TAKEOVER, self._membership.lease_seconds)):
            await asyncio.sleep(seconds)

    def _look(self) -> None:
        self._tell(TIMER)
        self._measure()

    def _pass(self) -> None:
        """Whoever owned anything before has told its limit, or stamps nothing any more."""
        own = self._membership.own.member
        told = [told.limit for _, _, told in self._membership.told() if told.member != own]
        self._rise(max(told, default=0))
        self._fence.clear()

    def _rise_at_start(self) -> None:
        """Before it tells anything under its name: should it have been killed, what it told before says what it had."""
        self._membership.ask_limits()
        if (quorum := self._membership.quorum()) is not None:
            self._membership.note_orphans(quorum.names)
        self._rise_above(0)

    def _rise_above(self, timestamp: int) -> None:
        self._membership.ask_limits()
        self._rise(max([timestamp, *(told.limit for _, _, told in self._membership.told())]))

    def _rise(self, timestamp: int) -> None:
        self._tell(TAKEOVER, timestamp)
        self._bounds.rise(timestamp)

    def _tell(self, which: str, floor: int = 0) -> None:
        wall = self._clock.wall_ms()
        limit = self._bounds.next_limit(wall, floor)
        owned = str(self._fence.owned())
        own = self._membership.own
        self._membership.tell_limit(which, PublishedBound(member=own.member, limit=limit, wall_ms=wall, owned=owned))
        self._bounds.allow(limit)

    def _measure(self) -> None:
        """What another one has just told says how late it is there, within the time between two looks."""
        found = {told.member: told.wall_ms for which, _, told in self._membership.told() if which == TIMER}
        wall = self._clock.wall_ms()
        for member, there in found.items():
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
        return [peer.name for peer in self._elder() if peer.member not in self._skews]

    async def _run(self, which: str, call: Callable[[], T]) -> T:
        return await self._workers[which].run(call)

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await work()
            except ClusterUnreachable as error:
                self._logger.warning("the other members could not be asked", error=str(error))
                await asyncio.sleep(TELL_SECONDS)
