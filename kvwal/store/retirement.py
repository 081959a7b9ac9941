"""Retirement of the logs of destroyed maps.

A log is removed from the disk once all its entries are archived and none is live. Only the end of the log is left there. Once its
history is over, the log is removed from the archive, and then its end from the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from kvwal.archiver.jobs import ArchiveTarget, Remove, Removed
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.log.files.format import SnapshotHeader
from kvwal.log.files.retired import end_of, remove_end, retired_places
from kvwal.ports.boundary import contain_awaiting, raised_to_awaiter, start_task, trace_of_bug
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.context import StoreContext
from kvwal.store.open_business import OpenBusiness
from kvwal.store.scheduling.schedule import MAINTENANCE_SECONDS
from kvwal_archive.layout import Place

if TYPE_CHECKING:
    from kvwal.ports.logger import Logger


class Retirement:
    """Retires logs, one at a time, because other logs write meanwhile and each removal costs the disk a few syncs.

    Used on the store's event loop.
    """

    def __init__(
        self, businesses: dict[str, OpenBusiness], reopen: Callable[[OpenBusiness], object], remove_abandoned: Callable[[], None],
        workers: ThreadWorkers, logger: Logger,
    ) -> None:  # fmt: skip
        """`businesses` are the open ones. `reopen` opens a business again that was closed and could not be retired.

        `remove_abandoned` completes the removal that a killed process had begun. It is called once, on `workers`.
        """
        self._businesses = businesses
        self._reopen = reopen
        self._remove_abandoned = remove_abandoned
        self._workers = workers
        self._logger = logger
        self._removed_abandoned = False
        self._leaving: dict[str, asyncio.Future[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def tick(self) -> None:
        """Begin to retire the logs that may go now. To be called about every second."""
        if self._closed or (self._task is not None and not self._task.done()):
            return
        due = [business for business in self._businesses.values() if business.may_retire()]
        if due or not self._removed_abandoned:
            self._task = start_task(self._run(due), raised_to_awaiter)

    async def wait(self, name: str) -> None:
        """Return when the log of the business is not being retired: it is open, or may be opened."""
        while (leaving := self._leaving.get(name)) is not None:
            await asyncio.wait([leaving])

    async def close(self) -> None:
        """Wait for the log that is being retired, and begin with no other."""
        self._closed = True
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, due: list[OpenBusiness]) -> None:
        if not self._removed_abandoned:
            self._removed_abandoned = True
            await contain_awaiting(
                partial(self._workers.run, self._remove_abandoned), partial(self._failed, "what was left")
            )
        for business in due:
            is_alone = await self._workers.run(business.maintenance.is_alone_here)
            # Where another node has a log of the business under this root, readers need both logs.
            business.maintenance.retires &= is_alone
            if self._closed:
                return
            if business.may_retire():
                await self._retire(business)

    async def _retire(self, business: OpenBusiness) -> None:
        name = business.name
        del self._businesses[name]
        leaving = self._leaving[name] = asyncio.get_running_loop().create_future()
        is_retired = False

        async def retire() -> None:
            nonlocal is_retired
            is_retired = await business.retire()

        try:
            await contain_awaiting(retire, partial(self._failed, name))
            if not is_retired:
                self._reopen(business)
        finally:
            del self._leaving[name]
            leaving.set_result(None)
            self._workers.logs = len(self._businesses)

    def _failed(self, name: str, error: BaseException) -> None:
        self._logger.warning(
            "a log that holds nothing is still there", business=name, error=str(error), exc_info=trace_of_bug(error)
        )


class LogRemoval:
    """Removes the objects of retired logs from the archive, one log after the other. Used on the store's event loop."""

    def __init__(
        self, context: StoreContext, node_place: Place, has_log: Callable[[str], bool], may_remove: Callable[[], Awaitable[bool]],
    ) -> None:  # fmt: skip
        """`node_place` names the node; its business does not count. `has_log(business)`: the business has a log again.

        `may_remove()`: no other node can still archive an entry that is older than those in the archive now.
        """
        self._context = context
        self._node_place = node_place
        self._has_log = has_log
        self._may_remove = may_remove
        self._due = context.ports.clock.elapsed() + MAINTENANCE_SECONDS
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def tick(self) -> None:
        """Begin a round, if it is due. To be called about every second."""
        now = self._context.ports.clock.elapsed()
        if self._closed or self._context.archive_url is None or now < self._due:
            return
        if self._task is None or self._task.done():
            self._due = now + MAINTENANCE_SECONDS
            self._task = start_task(contain_awaiting(self._run, self._failed), raised_to_awaiter)

    async def close(self) -> None:
        """Wait for the round that is under way, and begin no other."""
        self._closed = True
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        """Remove the retired logs that are due. The first failure ends the round; the next round begins anew."""
        due_logs = await self._context.ports.workers.run(self._logs_without_history)
        if not due_logs or not await self._may_remove():
            return
        for place, end in due_logs:
            if self._closed:
                return
            if not self._has_log(place.business):
                await self._remove(place, end)

    def _logs_without_history(self) -> list[tuple[Place, SnapshotHeader]]:
        """Retired logs whose last entry is older than the setting `history_seconds`."""
        context, wanted = self._context, self._node_place
        before = context.ports.clock.wall_ms() - int(context.settings.history_seconds * 1000)
        disk, root = context.ports.disk, context.root
        places = retired_places(disk, root, wanted.namespace, wanted.cluster)
        ends = ((place, end_of(disk, root, place)) for place in places if place.node == wanted.node)
        return [(place, end) for place, end in ends if end and end.last_timestamp >> TIMESTAMP_SHIFT < before]

    async def _remove(self, place: Place, end: SnapshotHeader) -> None:
        context = self._context
        target = ArchiveTarget(context.archive_url or "", place, end.log_id, context.options)
        job = Remove(target, end.last_sequence, end.last_timestamp)
        if (await context.archiver.do(job, Removed)).gone and not self._has_log(place.business):
            await context.ports.workers.run(partial(remove_end, context.ports.disk, context.root, place))

    def _failed(self, error: BaseException) -> None:
        self._context.logger.warning(
            "what the archive holds of destroyed maps is still there", error=str(error), exc_info=trace_of_bug(error)
        )


async def always() -> bool:
    """No other node archives: what is in the archive may go."""
    return True
