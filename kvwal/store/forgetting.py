"""What the archive holds of retired logs goes when their history is over, and then the ends of these logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from archive.layout import Place
from kvwal.archiver.jobs import ArchiveTarget, Forget, Forgotten
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import KvwalError
from kvwal.log.files.format import SnapshotHeader
from kvwal.log.files.retired import end_of, forget, retired_places
from kvwal.ports.boundary import contain_awaiting, raised_to_awaiter, start_task
from kvwal.store.context import StoreContext
from kvwal.store.maintenance import MAINTENANCE_SECONDS


class Forgetting:
    """Removes what the archive holds of retired logs, one log after the other. Used on the store's event loop."""

    def __init__(self, context: StoreContext, everywhere: Place, has_log: Callable[[str], bool]) -> None:
        """`everywhere` is a place of the node, whatever its business; `has_log` says whether a business is written to again."""
        self._context = context
        self._place = everywhere
        self._has_log = has_log
        self.may: Callable[[], Awaitable[bool]] = _always
        """Whether no other node can bring something older than what the archive has now."""
        self._due = context.ports.clock.elapsed() + MAINTENANCE_SECONDS
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def tick(self) -> None:
        """Begin, if it is time. To be called about every second."""
        now = self._context.ports.clock.elapsed()
        if self._closed or self._context.archive_url is None or now < self._due:
            return
        if self._task is None or self._task.done():
            self._due = now + MAINTENANCE_SECONDS
            self._task = start_task(contain_awaiting(self._run, self._failed), raised_to_awaiter)

    async def close(self) -> None:
        """Let what is under way end, and begin nothing more."""
        self._closed = True
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        """Until one cannot be reached: then the next round begins anew."""
        over = await self._context.ports.workers.run(self._over)
        if not over or not await self.may():
            return
        for place, end in over:
            if self._closed:
                return
            if not self._has_log(place.business):
                await self._forget(place, end)

    def _over(self) -> list[tuple[Place, SnapshotHeader]]:
        """Retired logs whose history is over."""
        context, wanted = self._context, self._place
        before = context.ports.clock.wall_ms() - int(context.settings.history_seconds * 1000)
        disk, root = context.ports.disk, context.root
        places = retired_places(disk, root, wanted.namespace, wanted.cluster)
        ends = ((place, end_of(disk, root, place)) for place in places if place.node == wanted.node)
        return [(place, end) for place, end in ends if end and end.last_timestamp >> TIMESTAMP_SHIFT < before]

    async def _forget(self, place: Place, end: SnapshotHeader) -> None:
        context = self._context
        where = (place.namespace, place.cluster, place.business, place.node)
        target = ArchiveTarget(context.archive_url or "", where, end.log_id, context.options)
        job = Forget(target, end.last_sequence, end.last_timestamp)
        if (await context.archiver.do(job, Forgotten)).gone and not self._has_log(place.business):
            await context.ports.workers.run(partial(forget, context.ports.disk, context.root, place))

    def _failed(self, error: BaseException) -> None:
        trace = None if isinstance(error, KvwalError | OSError) else error
        self._context.logger.warning(
            "what the archive holds of destroyed maps is still there", error=str(error), exc_info=trace
        )


async def _always() -> bool:
    return True
