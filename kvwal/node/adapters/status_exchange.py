"""Status exchange: the status that this member publishes, and the statuses of all living members."""

from __future__ import annotations

from functools import partial

import msgspec

from kvwal.cluster.archive_load import LoadProgress
from kvwal.cluster.bootstrap import Status
from kvwal.cluster.membership import LocalMembership
from kvwal.node.adapters.archive_requests import ArchiveRequests
from kvwal.node.adapters.live_members import Membership
from kvwal.node.adapters.quorum_membership import QuorumMembership
from kvwal.node.config import NodeOptions
from kvwal.ports.tasks import Workers


class StatusExchange:
    """The statuses as one member sees them. Used on the node's event loop.

    `archived`, `away`, `failing`, `data_bytes` and `room_bytes` are fields of the own status (see `Status`), set when they
    change; the next `publish` shows them to the others. `last` is what `all` returned last.
    """

    def __init__(
        self,
        options: NodeOptions,
        membership: Membership,
        quorum_membership: QuorumMembership,
        record: LocalMembership,
        archiving: ArchiveRequests,
        workers: Workers,
    ) -> None:
        self.archived = False
        self.away = False
        self.failing = False
        self.data_bytes = 0
        self.room_bytes = 0
        self.last: list[Status] = []
        self._options = options
        self._membership = membership
        self._quorum_membership = quorum_membership
        self._record = record
        self._archiving = archiving
        self._workers = workers
        self._published: Status | None = None

    def own(self, load: LoadProgress | None = None) -> Status:
        """The status of this member now; with `load` while this member fills the cluster's memory."""
        own = self._membership.own
        status = Status(
            member=own.member, name=own.name, address=own.address, expected=self._record.members, left=self._record.left,
            looked=self._record.looked, was_there=self._record.was_there, away=self.away,
            listed=[str(address) for address in self._options.members], without=list(self._options.without),
            archived=self.archived, alone=self._record.alone, votes=self._quorum_membership.version, failing=self.failing,
            data_bytes=self.data_bytes, room_bytes=self.room_bytes,
            asks=self._archiving.asks, answered=self._archiving.answered,
        )  # fmt: skip
        if load is None:
            return status
        return msgspec.structs.replace(
            status, loading=True, entries=load.entries, most=load.most, eta_seconds=load.eta_seconds()
        )

    async def all(self) -> list[Status]:
        """The statuses that the living members published, this one's among them.

        If this member's status is not among them, it was lost with other members: the next `publish` publishes it again.
        """
        statuses = self.last = await self._workers.run(self._membership.statuses)
        if self._published not in statuses:
            self._published = None
        return statuses

    async def publish(self, status: Status | None = None) -> None:
        """Publish `status`, by default `own()`, unless the others have the same already."""
        status = self.own() if status is None else status
        if status != self._published:
            await self._workers.run(partial(self._membership.tell, status))
            self._published = status
