"""The asyncio core of a store: its businesses, its archiver, and the timer of their maintenance.

`store.Store` and `aio.Store` are thin: they choose the event loop of the engine, and wait for its coroutines.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kvwal.archiver.remote import Archiver
from kvwal.config import Flush, check_flush
from kvwal.errors import ConfigError, KvwalError, StoreClosed, WrongLoop
from kvwal.history.restore.backup import backup
from kvwal.hlc import HybridClock
from kvwal.log.files.format import SnapshotHeader
from kvwal.log.files.names import find_places, log_folder
from kvwal.log.files.retired import end_of, remove_abandoned, retired_places
from kvwal.log.log import Ports, check_descriptors, not_opened
from kvwal.ports.boundary import contain_each, logged, raise_together, raised_to_awaiter, start_task
from kvwal.ports.descriptors import Budget
from kvwal.ports.logger import get_logger
from kvwal.ports.processes import tell_if_forked
from kvwal.ports.space import space_stats
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.context import StoreContext, embedded_memory, one_interval
from kvwal.store.open_business import OpenBusiness, open_business
from kvwal.store.options import Options
from kvwal.store.retirement import LogRemoval, Retirement, always
from kvwal.structures.guards import Now
from kvwal.structures.memory import BusinessMemory
from kvwal_archive.faults import NotTaken
from kvwal_archive.layout import Place, check_name

T = TypeVar("T")
TICK_SECONDS = 1.0
_IDLE_TICKS = 10
"""A log without a write for 10 to 20 ticks closes its file."""
_OPENED_AT_ONCE = 3
"""Number of logs that are recovered at a time: one thread of the pool is left to the logs that are open."""
_not_abandoned = logged("a log could not be abandoned after its event loop had ended")


class Engine:
    """The core of a store on one event loop. `businesses` are the open ones."""

    def __init__(
        self,
        options: Options,
        *,
        own_loop: bool,
        memory: Callable[[StoreContext, Place, Now], BusinessMemory] = embedded_memory,
        hybrid: Callable[[], HybridClock] = HybridClock,
        flush_of: Callable[[str], Flush] | None = None,
        archive_interval_factor: Callable[[], int] = one_interval,
        may_remove: Callable[[], Awaitable[bool]] = always,
        large_values_beside: bool = True,
    ) -> None:
        """`own_loop`: only kvwal runs on this event loop.

        `memory`, `hybrid`, `archive_interval_factor` and `large_values_beside` are those of `StoreContext`.
        `flush_of` gives the flush policy of a business that is opened without one; its default is the store's policy.
        `may_remove` is that of `LogRemoval`.
        """
        self.options = options
        self.node = options.node()
        self.businesses: dict[str, OpenBusiness] = {}
        self._logger = get_logger(__name__)
        self._workers = ThreadWorkers("kvwal-disk", own_loop=own_loop)
        self._archive_workers = ThreadWorkers("kvwal-archiver", 1)
        self._context = StoreContext(
            ports=Ports(options.disk, options.clock, self._workers, options.metrics, options.descriptors),
            root=options.root,
            settings=options.settings,
            archiver=Archiver(self._archive_workers, options.start_archiver),
            archive_url=options.archive_url,
            options=options.storage_options,
            accept_clock=options.accept_clock,
            progress=options.progress,
            logger=self._logger,
            memory=memory,
            large_values_beside=large_values_beside,
            hybrid=hybrid,
            archive_interval_factor=archive_interval_factor,
        )
        self._flush_of = flush_of or (lambda name: options.flush)
        self._opening: dict[str, asyncio.Task[OpenBusiness]] = {}
        self._retirement = Retirement(
            self.businesses, self._reopen, self._remove_abandoned, self._workers, self._logger
        )
        self._log_removal = LogRemoval(self._context, self.place("any"), self.has_log, may_remove)
        self._at_once = asyncio.Semaphore(_OPENED_AT_ONCE)
        self._closed = False
        self._closing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        self._ticker = start_task(self._tick(), self._ticked)
        tell_if_forked(self)

    async def business(self, name: str, flush: Flush | None = None) -> OpenBusiness:
        """The business `name`, which is locked and recovered at first use. `flush` overrides its policy."""
        self.check_loop()
        await self._retirement.wait(name)
        self._check_open()
        business = self.businesses.get(name)
        if business is None:
            policy = self._flush_of(name) if flush is None else check_flush(flush)
            business = await asyncio.shield(self._opening.get(name) or self._begin_opening(name, policy))
            self._check_open()
        if flush is not None and flush != business.flush:
            raise ConfigError(f"{name} is open with flush={business.flush!r}.", hint="A map has one policy at a time.")
        return business

    def _begin_opening(self, name: str, policy: Flush) -> asyncio.Task[OpenBusiness]:
        """Begin to open a log. Logs are opened in parallel, each once. An opening goes on if its caller is cancelled."""
        opening = self._opening[name] = start_task(self._open(name, policy), raised_to_awaiter)
        return opening

    async def _open(self, name: str, policy: Flush) -> OpenBusiness:
        try:
            place = self.place(check_name("map", name))
            async with self._at_once:
                await self._workers.run(partial(check_descriptors, place, self._context.ports.descriptors))
                business = self.businesses[name] = await open_business(place, policy, self._context)
        finally:
            del self._opening[name]
        self._workers.logs = len(self.businesses)
        return business

    def _reopen(self, business: OpenBusiness) -> None:
        self._begin_opening(business.name, business.flush)

    def _remove_abandoned(self) -> None:
        options = self.options
        remove_abandoned(options.disk, options.root, options.namespace, options.cluster, self.node)

    async def archive(self) -> None:
        """Archive every business of this node, and return when the archive has confirmed all of them.

        `NotTaken` if the archive takes nothing. Each log was compared with what the archive holds of it all the same.
        """
        self.check_loop()
        if self.options.archive_url is None:
            raise ConfigError("the store was opened with archive=None.", hint="Open it with an archive.")
        not_taken: NotTaken | None = None
        async for business in self._existing():
            try:
                await business.maintenance.archive()
            except NotTaken as error:
                not_taken = not_taken or error
        if not_taken is not None:
            raise not_taken

    async def checkpoint(self) -> None:
        """Checkpoint every business of this node."""
        self.check_loop()
        async for business in self._existing():
            await business.maintenance.checkpoint()

    async def backup(self, folder: str | Path) -> None:
        """Copy all logs under the root into `folder`."""
        self.check_loop()
        self._check_open()
        reserve = self.options.settings.reserve_bytes
        await self._workers.run(partial(backup, self.options.disk, self.options.root, folder, reserve=reserve))

    async def _existing(self) -> AsyncIterator[OpenBusiness]:
        """Every business of this node, opened; a business whose log was retired meanwhile is left out.

        A log that cannot be opened (damaged, or not readable) does not keep the others: its error is raised at the end.
        """
        refused: KvwalError | None = None
        for name in self.names():
            await self._retirement.wait(name)
            if not self.has_log(name):
                continue
            try:
                business = await self.business(name)
            except KvwalError as error:
                self._check_open()
                refused = refused or error
                continue
            yield business
        if refused is not None:
            raise refused

    def has_log(self, name: str) -> bool:
        """Whether this node has a log of the business `name`, open or not. A log that may not be looked at is one."""
        if name in self.businesses or name in self._opening:
            return True
        try:
            return self.options.disk.exists(log_folder(self.options.root, self.place(name)))
        except PermissionError:
            return True

    def retired(self) -> list[str]:
        """Businesses whose log on this node was retired: only the end of the log is left, or is gone too. See `end_of`."""
        options = self.options
        places = retired_places(options.disk, options.root, options.namespace, options.cluster)
        return [place.business for place in places if place.node == self.node]

    def end_of(self, name: str) -> SnapshotHeader | None:
        """The end of the log of the business `name`, None if the log is not retired. Looks at the disk."""
        return None if self.has_log(name) else end_of(self.options.disk, self.options.root, self.place(name))

    def names(self) -> list[str]:
        """Businesses of this node, open or not, sorted; with those whose folder this user may not read."""
        options = self.options
        closed: set[str] = set()
        try:
            places = find_places(options.disk, options.root, options.namespace, options.cluster, closed=closed)
        except OSError as error:
            raise not_opened(options.root, error) from error
        return sorted({place.business for place in places if place.node == self.node} | set(self.businesses) | closed)

    def descriptors(self) -> Budget:
        """The file descriptors of this process."""
        return self._context.ports.descriptors.budget()

    def stats(self) -> dict[str, Any]:
        """Numbers about the store and its open businesses; JSON can hold them."""
        disk = self.options.disk
        return {
            "root": str(self.options.root),
            "namespace": self.options.namespace,
            "cluster": self.options.cluster,
            "node": self.node,
            "archive": self.options.archive_url,
            "descriptors": self.descriptors()._asdict(),
            "disk": space_stats(disk, self.options.root, self.options.settings.reserve_bytes),
            "businesses": {name: business.stats() for name, business in sorted(self.businesses.items())},
        }

    async def close(self, *, archive: bool, within: float | None = None) -> None:
        """Close every business cleanly, and release threads and locks. With `archive` tails are archived, for `within` seconds.

        If the caller is cancelled, the closing goes on. A second call waits for its end, or does nothing after it.
        """
        if self._loop.is_closed():
            self._let_go()
        elif not (self._closed if self._closing is None else self._closing.done()):
            self.check_loop()
            self._closing = self._closing or start_task(self._close(archive=archive, within=within), raised_to_awaiter)
            await asyncio.shield(self._closing)

    async def _close(self, *, archive: bool, within: float | None) -> None:
        until = None if within is None else self.options.clock.elapsed() + within
        self._closed = True
        await self._retirement.close()
        await self._log_removal.close()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        self._ending.set()  # a tick under way ends by itself: a call on a thread goes on when its task is cancelled
        await asyncio.gather(self._ticker, return_exceptions=True)
        closing = {name: business.close(archive=archive, until=until) for name, business in self.businesses.items()}
        outcomes = await asyncio.gather(*closing.values(), return_exceptions=True)
        outcomes += await asyncio.gather(self._context.archiver.close(), return_exceptions=True)
        failures = dict(zip([*closing, "the archiver"], outcomes, strict=True))
        contain_each([self._archive_workers.close, self._workers.close], partial(failures.__setitem__, "its threads"))
        raise_together({what: error for what, error in failures.items() if error is not None})

    async def _tick(self) -> None:
        """Every second, begin the maintenance that is due, until the store is closed."""
        for count in itertools.count(1):
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._ending.wait()
                return
            if count % _IDLE_TICKS == 0:
                self._context.ports.descriptors.close_idle_descriptors()
            await self._workers.run(partial(_check_places, list(self.businesses.values())))
            for business in list(self.businesses.values()):
                await business.maintenance.tick()
            if self._closed:
                return
            self._retirement.tick()
            self._log_removal.tick()

    def _ticked(self, error: BaseException) -> None:
        """Log the bug that stopped the timer, and start the timer again: without it nothing is archived or checkpointed."""
        self._logger.error("the timer of the maintenance met a bug; it goes on", exc_info=error)
        if not self._closed:
            self._ticker = start_task(self._tick(), self._ticked)

    def abandon(self, error: BaseException) -> None:
        """Abandon all open logs, because the event loop cannot go on: they refuse waiting and new writes, and lose their locks.

        To be called on the loop's thread.
        """
        refusals = [partial(business.log.abandon, error) for business in self.businesses.values()]
        contain_each([*refusals, self._let_go], _not_abandoned)

    def _let_go(self) -> None:
        """End the logs as a crash does, once no thread of the store writes: the event loop was closed before the store."""
        self._closed = True
        self._archive_workers.close()
        self._workers.close()
        self._context.archiver.let_go()
        for business in self.businesses.values():
            business.log.release()

    def forked(self) -> None:
        """Close the store in a child process; it goes on in the parent."""
        self._closed = True

    def check_loop(self) -> None:
        """Raise `WrongLoop` on another event loop than the store's; `StoreClosed` if that loop is closed, or in a child."""
        if asyncio.get_running_loop() is not self._loop:
            self._check_open()
            raise WrongLoop(
                "the store was opened on another event loop, and can be used and closed on that one only; nothing was written.",
                hint="Use `kvwal.open`, whose store serves any thread, or a store (a node, or a root) for each event loop.",
            )

    def place(self, business: str, node: str | None = None) -> Place:
        """The place of a business's log: that of this store's node, or of another one."""
        return Place(self.options.namespace, self.options.cluster, business, node or self.node)

    def _check_open(self) -> None:
        if self._closed or self._loop.is_closed():
            raise StoreClosed("the store is closed, or was opened in another process.", hint="Open it again.")


def _check_places(businesses: list[OpenBusiness]) -> None:
    """Fail the logs whose folder was renamed, replaced or deleted: later writes would go to another log, or be lost."""
    for business in businesses:
        business.log.check_place()
