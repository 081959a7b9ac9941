"""A member with a bad link ends, or the oldest gives it up, as all members that hear each other conclude alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvwal.cluster.link_failures import Report, Verdict, victims
from kvwal.cluster.quorum import Quorum
from kvwal.node.adapters.membership import Membership, Peer
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import ThreadWorkers


class Links:
    """Of a member that serves. Used on the node's event loop."""

    def __init__(
        self,
        instance: Any,
        heard: Any,
        lose: Callable[[str], None],
        check_whole: Callable[[], None],
        membership: Membership,
        quorum: Callable[[], Quorum | None],
        clock: Clock,
    ) -> None:
        """`heard` is LinkMonitor.java, `lose` that of ReadyGate.java, which takes why this member's memory counts no more;
        `check_whole` raises that."""
        self.check_whole = check_whole
        self._instance = instance
        self._heard = heard
        self._lose = lose
        self._membership = membership
        self._quorum = quorum
        self._clock = clock
        # Of its own: every other pool may be full of those who wait for members that do not hear this one.
        self._workers = ThreadWorkers("kvwal-links", 1)
        self._verdict = Verdict()
        self._logger = get_logger(__name__).bind(node=membership.own.name)

    async def look(self) -> None:
        """End Hazelcast in this node if it is to go; `check_whole` raises then. The oldest gives up whoever else is to go."""
        quorum, living = self._quorum(), self._membership.living()
        if quorum is None or len(living) < 2:
            return
        own, names = self._membership.own.name, [peer.name for peer in living]
        found = victims(own, names, quorum, self._reports(living))
        going = self._verdict.look(found, self._clock.elapsed())
        if own in going:
            others = ", ".join(name for name in names if name not in going)
            self._lose(f"the network between {own} and other members is cut, and {others} go on without it")
            # At once: the oldest would send the others lists of members without each other, and they would part.
            await self._workers.run(self._instance.getLifecycleService().terminate)
        elif own == names[0]:
            self._give_up([peer for peer in living if peer.name in going])

    def close(self) -> None:
        """Look no more."""
        self._workers.close()

    def _give_up(self, going: list[Peer]) -> None:
        for peer in going:
            self._logger.warning("a member is given up: not all of those that stay hear it", member=peer.name)
            self._heard.giveUp(peer.member)

    def _reports(self, living: list[Peer]) -> list[Report]:
        names = {peer.member: peer.name for peer in living}
        words = [str(word) for word in self._heard.reports()]
        return [
            Report(names[by], names[of], int(silent) / 1000, int(age) / 1000)
            for by, of, silent, age in zip(words[::4], words[1::4], words[2::4], words[3::4], strict=True)
            if by in names and of in names
        ]
