"""Retirement of the logs of destroyed maps: a log is removed once all its entries are archived and none is live."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from kvwal.errors import KvwalError
from kvwal.ports.boundary import contain_awaiting, raised_to_awaiter, start_task
from kvwal.ports.logger import Logger
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.open_business import OpenBusiness


class Retirement:
    """Retires logs, one at a time, because other logs write meanwhile and each removal costs the disk a few syncs.

    Used on the store's event loop.
    """

    def __init__(
        self, businesses: dict[str, OpenBusiness], reopen: Callable[[OpenBusiness], object], sweep: Callable[[], None],
        workers: ThreadWorkers, logger: Logger,
    ) -> None:  # fmt: skip
        """`businesses` are the open ones. `reopen` opens a business again that was closed and could not be retired.

        `sweep` completes the removal that a killed process had begun. It is called once, on `workers`.
        """
        self._businesses = businesses
        self._reopen = reopen
        self._sweep = sweep
        self._workers = workers
        self._logger = logger
        self._swept = False
        self._leaving: dict[str, asyncio.Future[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def tick(self) -> None:
        """Begin to retire the logs that may go now. To be called about every second."""
        if self._closed or (self._task is not None and not self._task.done()):
            return
        due = [business for business in self._businesses.values() if business.may_retire()]
        if due or not self._swept:
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
        if not self._swept:
            self._swept = True
            await contain_awaiting(partial(self._workers.run, self._sweep), partial(self._failed, "what was left"))
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
        trace = None if isinstance(error, KvwalError | OSError) else error
        self._logger.warning("a log that holds nothing is still there", business=name, error=str(error), exc_info=trace)
