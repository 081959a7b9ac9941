"""Memory fill: the oldest member loads the whole cluster's memory, from the archive or from the disks of all members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from kvwal.cluster.archive_load import ArchiveLoad, LoadProgress
from kvwal.cluster.bootstrap import (
    FilledMemory,
    Status,
    excluded_members,
    killed_without,
    why_disks_may_lack_writes,
)
from kvwal.cluster.transactions import finish
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ArchiveError, ClusterUnreachable
from kvwal.node.adapters.archive_requests import cluster_archive
from kvwal.node.adapters.live_members import Membership, Peer
from kvwal.node.adapters.quorum_membership import QuorumMembership
from kvwal.node.adapters.status_exchange import StatusExchange
from kvwal.node.lifecycle import Lifecycle, Phase
from kvwal.node.local_logs import note_lost_tails
from kvwal.node.requests.log_copies import Copies
from kvwal.ports.boundary import raised_to_awaiter, start_task
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal_archive.objects import Objects

_PUBLISH_SECONDS = 0.5
_LOG_SECONDS = 5.0


class MemoryFill:
    """Fills the memory of the cluster. Used on the node's event loop.

    Each attempt returns how many entries were loaded: 0 if memory could not be filled, and the attempt has to be repeated.
    """

    def __init__(
        self,
        engine: Engine,
        membership: Membership,
        quorum_membership: QuorumMembership,
        statuses: StatusExchange,
        make_loader: Callable[[], Any],
        gate: Any,
        copies: Copies,
        lifecycle: Lifecycle,
        workers: Workers,
    ) -> None:
        """`make_loader` makes a MemoryLoader.java; `gate` is ReadyGate.java."""
        self._engine = engine
        self._membership = membership
        self._quorum_membership = quorum_membership
        self._statuses = statuses
        self._make_loader = make_loader
        self._gate = gate
        self._copies = copies
        self._lifecycle = lifecycle
        self._workers = workers
        self._unproved: list[str] = []
        self._logger = get_logger(__name__).bind(node=engine.node)

    async def from_archive(self, living: list[Peer], statuses: list[Status]) -> int:
        """Fill memory from the cluster's archive."""
        return await self._fill(living, statuses, await self._workers.run(partial(cluster_archive, self._engine)))

    async def from_disks(self, living: list[Peer], statuses: list[Status], archive_error: str) -> int:
        """Fill memory from the disks of all members, while the archive is away: if the disks hold all acknowledged writes."""
        if reasons := why_disks_may_lack_writes(statuses, [peer.name for peer in living]) or self._unproved:
            waiting_for = [*reasons, *filter(None, [archive_error])]
            if self._lifecycle.to(Phase.WAITING, waiting_for=waiting_for):
                self._logger.info("waiting for the archive", waiting_for=waiting_for)
            return 0
        if self._lifecycle.to(Phase.LOADING, archive_away=archive_error):
            self._logger.info("filling memory from the disks of all members", archive_away=archive_error)
        try:
            objects = await self._copies.gather(self._engine.node, living)
        except ArchiveError as error:
            self._unproved = [str(error)]
            return 0
        return await self._fill(living, statuses, objects)

    async def _fill(self, living: list[Peer], statuses: list[Status], objects: Objects) -> int:
        context = self._engine.options
        progress = LoadProgress(context.clock.elapsed)
        load = ArchiveLoad(
            objects, context.namespace, context.cluster, self._make_loader(), now_ms=context.clock.wall_ms(),
            skew_ms=int(context.settings.max_skew_seconds * 1000), progress=progress,
        )  # fmt: skip
        without = sorted(excluded_members(statuses))
        self._logger.info("filling memory", members=[peer.name for peer in living], without=without)
        loaded = await self._run_load(load, progress)
        newest = load.newest
        for name, intent, changes in load.unfinished:
            newest = max(newest, await finish(await self._engine.business(name), intent, changes))
        await self._note_lost_tails(objects, killed_without(statuses), newest)
        self._gate.arm(False)
        members = [peer.member for peer in living]
        if not set(members) <= {peer.member for peer in await self._workers.run(self._membership.living)}:
            self._gate.disarm()
            self._logger.warning("a member went while memory was filled; once more")
            return 0
        await self._workers.run(partial(self._quorum_membership.begin, [peer.name for peer in living]))
        recovered = FilledMemory(by=self._engine.node, without=without, living=members, newest=newest)
        await self._workers.run(partial(self._membership.tell_recovered, recovered))
        return loaded

    async def _note_lost_tails(self, objects: Objects, lost: list[str], newest: int) -> None:
        """Put on record what the members may have had on their disks only that --without leaves out. Memory has it not."""
        context = self._engine.options
        before = max(newest + 1, context.clock.wall_ms() << TIMESTAMP_SHIFT)
        for node in lost:
            await self._workers.run(
                partial(note_lost_tails, objects, context.namespace, context.cluster, node, before=before)
            )

    async def _run_load(self, load: ArchiveLoad, progress: LoadProgress) -> int:
        """Run `load` on a worker, and publish its progress meanwhile."""
        elapsed = self._engine.options.clock.elapsed
        loading = start_task(self._workers.run(load.run), raised_to_awaiter)
        logged = elapsed()
        try:
            while not loading.done():
                status = self._statuses.own(progress)
                self._lifecycle.to(Phase.LOADING, loading=status.name, **load_progress(status))
                await self._statuses.publish(status)
                await asyncio.wait({loading}, timeout=_PUBLISH_SECONDS)
                if elapsed() - logged >= _LOG_SECONDS:
                    logged = elapsed()
                    self._logger.info("filling memory", **load_progress(self._statuses.own(progress)))
        except ClusterUnreachable:
            await asyncio.gather(loading, return_exceptions=True)  # the next attempt must not run beside this one
            raise
        return await loading


def load_progress(status: Status) -> dict[str, object]:
    """The progress of the member that fills memory, as /readyz and the log show it."""
    return {"entries": status.entries, "of_at_most": status.most, "eta_seconds": status.eta_seconds}
