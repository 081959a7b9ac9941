"""Membership of a member that serves: it keeps its record of the members, archives for others, and leaves in order."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kvwal.cluster.membership import LocalMembership
from kvwal.cluster.rejoin import WINDOW_MS
from kvwal.errors import ClusterUnreachable
from kvwal.node.adapters.archive_requests import ArchiveRequests, not_archived
from kvwal.node.adapters.live_members import Membership
from kvwal.node.adapters.quorum_membership import QuorumMembership
from kvwal.node.adapters.status_exchange import StatusExchange
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.retries import poll_until
from kvwal.ports.tasks import Workers

T = TypeVar("T")

_POLL_SECONDS = 0.1
_WITHDRAW_SECONDS = 3.0
_TELL_SECONDS = 30.0
"""After so long, and again after each such time, a member says for whose archives it waits."""


class ServingMembership:
    """One serving member among the others. Used on the node's event loop. `living` is how many members there were at the last
    `keep_up`, 0 before."""

    def __init__(
        self,
        membership: Membership,
        quorum_membership: QuorumMembership,
        record: LocalMembership,
        statuses: StatusExchange,
        archiving: ArchiveRequests,
        clock: Clock,
        workers: Workers,
    ) -> None:
        self.living = 0
        self._membership = membership
        self._quorum_membership = quorum_membership
        self._record = record
        self._statuses = statuses
        self._archiving = archiving
        self._clock = clock
        self._workers = workers
        self._apart_since = record.apart
        self._logger = get_logger(__name__).bind(node=membership.own.name)

    async def keep_up(self) -> None:
        """Put members that joined on record, archive if another member asks for it, and publish the own status. To be called
        every moment."""
        statuses = await self._statuses.all()
        await self._record.keep(statuses)
        await self._note_apart(apart=self._quorum_membership.lacks(statuses))
        await self._run(self._quorum_membership.refresh)
        self._archiving.answer(statuses)
        self.living = len(statuses)
        await self._statuses.publish()

    @property
    def apart_ms(self) -> int:
        """Since when, in unix ms, this member may have been alone before it was away, as far as its record knows; else now."""
        return self._apart_since or self._clock.wall_ms()

    def note_compared(self) -> None:
        """Note that this member's log was compared with the memory of the others: see `Rejoin`."""
        self._apart_since = 0

    @property
    def is_archiving(self) -> bool:
        """Whether this member archives for another one that waits for it."""
        return self._archiving.is_busy

    async def all_archive(self, *, within: float = math.inf) -> None:
        """Returns when the archive has everything that the logs of all living members held when this was called.

        `ArchiveError`, which names the members that are not done, if that takes more than `within` seconds.
        """
        number = self._archiving.ask(self._clock.wall_ms(), await self._statuses.all())
        left = within
        while True:
            seconds = min(left, _TELL_SECONDS)
            lacking = await poll_until(
                operator.not_, partial(self._lacking, number), pause=_POLL_SECONDS, within=seconds
            )
            left -= seconds
            if not lacking:
                return
            if left <= 0:
                raise not_archived(lacking, within)
            self._logger.warning("waiting until all members have archived what they hold", lacking=lacking)

    async def _lacking(self, number: int) -> list[str]:
        """The members that have not archived yet what request `number` asks for."""
        return self._archiving.lacking(number, await self._statuses.all(), await self._run(self._membership.names))

    async def nothing_is_missing(self, *, within: float) -> bool:
        """Whether every member on record is there, and the archive has everything that their logs held when this was called. No
        member can bring an older entry later. `ArchiveError` if that takes more than `within` seconds."""
        if not self._record.alone:
            if not self._record.members.keys() <= await self._run(self._membership.names):
                return False
            await self.all_archive(within=within)
        return True

    async def may_leave(self, *, at_least: int = 1) -> bool:
        """See `QuorumMembership.may_leave`."""
        return self._quorum_membership.may_leave(await self._statuses.all(), at_least=at_least)

    async def withdraw(self) -> None:
        """Leave the quorum, if the others can be told in time."""
        try:
            if await poll_until(bool, self._leave, pause=_POLL_SECONDS, within=_WITHDRAW_SECONDS):
                return
        except ClusterUnreachable as error:
            self._logger.warning("the other members could not be asked", error=str(error))
        self._logger.warning(
            "the others were not told in time that this member leaves: they expect it, as if it was killed"
        )

    async def _leave(self) -> bool:
        """One step out of the quorum; True when this member has left it."""
        if await self._run(partial(self._quorum_membership.leave, await self._statuses.all())):
            return True
        await self._statuses.publish()
        return False

    async def _note_apart(self, *, apart: bool) -> None:
        """Put on record, durably, since when an expected member is out of sight. A member that ends meanwhile compares its log
        from there on."""
        since = self._record.apart
        if apart and not since:
            since = self._clock.wall_ms() - WINDOW_MS
        elif not apart and not self._apart_since:
            since = 0
        await self._record.note_apart(since)

    async def _run(self, call: Callable[[], T]) -> T:
        return await self._workers.run(call)
