"""Link watch: a member with a bad network link ends itself, or the oldest member gives it up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvwal.cluster.link_failures import LinkReport, VerdictDebouncer, victims
from kvwal.cluster.quorum import Quorum
from kvwal.node.adapters.live_members import Membership, Peer
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import ThreadWorkers


class LinkWatch:
    """The watch of a serving member over the network links between all members. Used on the node's event loop."""

    def __init__(
        self,
        instance: Any,
        link_monitor: Any,
        gate: Any,
        membership: Membership,
        quorum: Callable[[], Quorum | None],
        clock: Clock,
    ) -> None:
        """`instance` is Hazelcast's, `link_monitor` LinkMonitor.java, `gate` ReadyGate.java."""
        self._instance = instance
        self._link_monitor = link_monitor
        self._gate = gate
        self._membership = membership
        self._quorum = quorum
        self._clock = clock
        # A pool of its own: calls that wait for members out of reach may fill every other pool.
        self._workers = ThreadWorkers("kvwal-links", 1)
        self._verdict = VerdictDebouncer()
        self._logger = get_logger(__name__).bind(node=membership.own.name)

    async def check_links(self) -> None:
        """End Hazelcast in this node if this member has to go. The oldest member gives up the others that have to go."""
        quorum, living = self._quorum(), self._membership.living()
        if quorum is None or len(living) < 2:
            return
        own, names = self._membership.own.name, [peer.name for peer in living]
        going = self._verdict.update(victims(own, names, quorum, self._reports(living)), self._clock.elapsed())
        if own in going:
            others = ", ".join(name for name in names if name not in going)
            self._gate.lose(f"the network between {own} and other members is cut, and {others} go on without it")
            # Terminate at once: the oldest member would send the others member lists that lack some of them, and so split them.
            await self._workers.run(self._instance.getLifecycleService().terminate)
        elif own == names[0]:
            self._give_up([peer for peer in living if peer.name in going])

    def close(self) -> None:
        """End the pool of this watch."""
        self._workers.close()

    def _give_up(self, going: list[Peer]) -> None:
        for peer in going:
            self._logger.warning("a member is given up: not all of those that stay hear it", member=peer.name)
            self._link_monitor.giveUp(peer.member)

    def _reports(self, living: list[Peer]) -> list[LinkReport]:
        names = {peer.member: peer.name for peer in living}
        fields = str(self._link_monitor.reports()).split()
        return [
            LinkReport(names[by], names[of], int(silent) / 1000, int(age) / 1000)
            for by, of, silent, age in zip(fields[::4], fields[1::4], fields[2::4], fields[3::4], strict=True)
            if by in names and of in names
        ]
