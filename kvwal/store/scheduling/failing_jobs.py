"""The failing jobs of one log's maintenance: kept for `stats`, logged, and noted beside the log for other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kvwal.errors import KvwalError, LogFailed, StoreClosed
from kvwal.log.files.maintenance_failures import JobFailure, failure_of, read_failures, write_failures
from kvwal.ports.boundary import contain_awaiting, raised_to_awaiter, start_task, trace_of_bug
from kvwal.store.scheduling.timetable import Timetable
from kvwal_archive.layout import Place

if TYPE_CHECKING:
    from kvwal.log.log import Ports
    from kvwal.ports.logger import Logger

Work = Callable[[], Awaitable[None]]


class FailingJobs:
    """The jobs that failed at their last try, by name. Used on the store's event loop."""

    def __init__(self, place: Place, folder: Path, ports: Ports, logger: Logger, timetable: Timetable) -> None:
        self.failures: dict[str, JobFailure] = {}
        self._place = place
        self._folder = folder
        self._ports = ports
        self._logger = logger
        self._timetable = timetable
        self._noted: dict[str, JobFailure] = {}
        self._earlier: dict[str, JobFailure] = {}
        self._turn = asyncio.Lock()
        self._noting: asyncio.Task[None] | None = None

    @property
    def damage(self) -> str | None:
        """The damage that makes a job fail: of a file of the log, or an object of the archive. None if no job meets any."""
        return next((failure.reason for failure in self.failures.values() if failure.is_damage), None)

    async def contain(self, job: str, work: Work) -> None:
        """Do a job. A failure is logged and kept for `stats`; writes go on, and a later tick tries the job again."""

        async def done() -> None:
            await work()
            self.succeeded(job)

        await contain_awaiting(done, partial(self._failed, job))
        await self._note()

    async def raised(self, job: str, work: Work) -> None:
        """Do a job for a caller, at once: earlier failures put it off no longer. The caller gets an error, and `stats` has it."""
        self._timetable.reset(job)
        try:
            await work()
        except (StoreClosed, LogFailed):  # no failure of the job, and told elsewhere
            raise
        except (KvwalError, OSError) as error:
            self._failed(job, error)
            await self._note()
            raise
        self.succeeded(job)
        await self._note()

    def succeeded(self, job: str) -> None:
        """The job has succeeded, or has nothing to do."""
        self.failures.pop(job, None)
        self._earlier.pop(job, None)
        self._timetable.reset(job)

    def _failed(self, job: str, error: BaseException) -> None:
        known = self.failures.get(job)
        first = known or self._earlier.get(job)
        clock = self._ports.clock
        failure = failure_of(error, clock.wall_ms() if first is None else first.since_ms)
        self.failures[job] = failure
        self._timetable.failed(job, clock.elapsed())
        self._logger.warning(
            "maintenance failed", business=self._place.business, node=self._place.node, job=job, error=failure.reason,
            exc_info=None if known == failure else trace_of_bug(error),
        )  # fmt: skip

    async def take_note(self) -> None:
        """Read and remove the note of the process that had the log before: no job has failed yet in this one. A job that fails
        again before it succeeds has failed since then.
        """
        self._earlier = await self._ports.workers.run(partial(read_failures, self._ports.disk, self._folder))
        if self._earlier:
            self._noted = self._earlier
            await self._note()

    async def _note(self) -> None:
        """Note the failures for other processes. A disk that refuses the note is told by the next write to the log."""
        if self.failures != self._noted:
            # A caller that is cancelled leaves the write to its thread: `settled` waits for it.
            self._noting = start_task(self._write_note(), raised_to_awaiter)
            await asyncio.shield(self._noting)

    async def settled(self) -> None:
        """Returns when no note is being written."""
        if self._noting is not None:
            await asyncio.gather(self._noting, return_exceptions=True)

    async def _write_note(self) -> None:
        async with self._turn:
            self._noted = dict(self.failures)
            write = partial(write_failures, self._ports.disk, self._folder, self._noted)
            with suppress(OSError):
                await self._ports.workers.run(write)
