"""The asyncio core of a store: its businesses, its archiver, and the clock that tells them what is due.

Both faces (`store.Store`, `aio.Store`) are thin: they choose the loop that this runs on, and wait in their own way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from archive.layout import Place, check_name
from archive.objects import check_url
from kvwal.archiver.remote import Archiver, start_child
from kvwal.business import OpenBusiness, open_business
from kvwal.config import Flush, Settings, check_flush
from kvwal.errors import ConfigError, StoreClosed, WrongLoop
from kvwal.hlc import HybridClock
from kvwal.log.log import Ports, not_opened
from kvwal.log.names import choose_node, find_places
from kvwal.log.reader import Progress
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.ports.disk import OS_DISK, Disk
from kvwal.ports.meter import NO_METER, Meter
from kvwal.ports.processes import Child, tell_if_forked
from kvwal.ports.room import space_stats
from kvwal.ports.tasks import ThreadWorkers
from kvwal.structures.state import Now, State
from kvwal.upkeep import Surroundings

T = TypeVar("T")
ARCHIVE_FOLDER = "_archive"
TICK_SECONDS = 1.0


class Default(Enum):
    """Stands for an argument that was not given, where None means something else."""

    ARCHIVE = "the folder _archive under the root"


class Options:
    """What `open` was called with, checked."""

    def __init__(
        self,
        root: str | Path,
        *,
        namespace: str,
        cluster: str,
        node: str | None,
        archive: str | Path | Default | None,
        flush: Flush,
        storage_options: dict[str, Any] | None,
        settings: Settings | None,
        accept_clock: bool,
        progress: Progress | None,
        disk: Disk = OS_DISK,
        clock: Clock = SYSTEM,
        meter: Meter = NO_METER,
        start_archiver: Callable[[], Child] = start_child,
    ) -> None:
        """`disk` and `clock` are the doors that the store's logs use, `meter` hears what they do, `start_archiver` makes the
        archiver's process.
        """
        self.disk = disk
        self.clock = clock
        self.meter = meter
        self.start_archiver = start_archiver
        if str(root) == "":
            raise ConfigError("the root is an empty name.", hint='Name a folder; "." is the current one.')
        self.root = Path(root).absolute()
        self.namespace = check_name("namespace", namespace)
        self.cluster = check_name("cluster", cluster)
        self.named_node = node
        self.archive_named = archive is not Default.ARCHIVE and archive is not None
        self.archive_url = self._archive_url(archive)
        self.flush = check_flush(flush)
        self.storage_options = _check_storage(storage_options)
        self.settings = _check_settings(settings)
        self.accept_clock = accept_clock
        self.progress = progress
        if self.reach(lambda: disk.exists(self.root) and not disk.is_folder(self.root)):
            raise ConfigError(f"{self.root} is a file, and a root is a folder.", hint="Choose another root.")

    def node(self) -> str:
        """The node that is meant; several without a choice are a `ConfigError`."""
        return self.reach(lambda: choose_node(self.disk, self.root, self.namespace, self.cluster, self.named_node))

    def places(self) -> list[Place]:
        """The logs under the root that a reader means: of one node, or of all."""
        found = self.reach(lambda: find_places(self.disk, self.root, self.namespace, self.cluster))
        return [place for place in found if self.named_node in (None, place.node)]

    def reach(self, look: Callable[[], T]) -> T:
        """What `look` finds under the root; where that is not allowed, a `ConfigError` that says so."""
        try:
            return look()
        except PermissionError as error:
            raise ConfigError(
                f"{self.root}: not allowed to look here ({error.strerror}: {error.filename}).",
                hint="Choose another root, or mend its owner and mode.",
            ) from error

    def _archive_url(self, archive: str | Path | Default | None) -> str | None:
        if archive is None:
            return None
        if isinstance(archive, Default):
            return str(self.root / ARCHIVE_FOLDER)
        check_url(str(archive))
        return str(archive) if "://" in str(archive) else str(Path(archive).absolute())


def _check_settings(settings: Settings | None) -> Settings:
    if not isinstance(settings, Settings | None):
        raise ConfigError(f"settings={settings!r} are no settings.", hint="Give kvwal.Settings(…).")
    return settings or Settings()


def _check_storage(options: dict[str, Any] | None) -> dict[str, Any]:
    """`options`, if they can cross the pipe to the archiver's process."""
    if not isinstance(options, dict | None):
        raise ConfigError(f"storage_options={options!r} is no dict.", hint="Give names and values.")
    try:
        msgspec.json.encode(options)
    except TypeError as error:
        raise ConfigError(
            f"storage_options must be such as JSON can hold: {error}.",
            hint="Give names, numbers and text, not objects.",
        ) from error
    return dict(options or {})


class Engine:
    """Used on one event loop. `businesses` are the open ones."""

    def __init__(
        self,
        options: Options,
        *,
        own_loop: bool,
        memory: Callable[[Now], State] = State,
        hybrid: Callable[[], HybridClock] = HybridClock,
    ) -> None:
        """`own_loop`: nobody but kvwal runs on this event loop. `memory` keeps a business's entries, `hybrid` is its clock."""
        self.options = options
        self.node = options.node()
        self.businesses: dict[str, OpenBusiness] = {}
        self._logger = structlog.get_logger("kvwal")
        self._workers = ThreadWorkers("kvwal-disk", own_loop=own_loop)
        self._archive_workers = ThreadWorkers("kvwal-archiver", 1)
        self._around = Surroundings(
            ports=Ports(options.disk, options.clock, self._workers, options.meter),
            root=options.root,
            settings=options.settings,
            archiver=Archiver(self._archive_workers, options.start_archiver),
            archive_url=options.archive_url,
            options=options.storage_options,
            accept_clock=options.accept_clock,
            progress=options.progress,
            logger=self._logger,
            memory=memory,
            hybrid=hybrid,
        )
        self._opening = asyncio.Lock()
        self._closed = False
        self._closing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._ticker = self._loop.create_task(self._tick())
        self._ticker.add_done_callback(self._ticked)
        tell_if_forked(self)

    async def business(self, name: str, flush: Flush | None = None) -> OpenBusiness:
        """The business of that name, opened (locked, recovered) at first use. `flush` overrides the store's policy for it."""
        self.check_loop()
        async with self._opening:
            self._check_open()
            found = self.businesses.get(name)
            if found is None:
                policy = self.options.flush if flush is None else check_flush(flush)
                found = await open_business(self._place(check_name("business", name)), policy, self._around)
                self.businesses[name] = found
                self._workers.logs = len(self.businesses)
            elif flush is not None and flush != found.flush:
                raise ConfigError(
                    f"{name} is open with flush={found.flush!r}.", hint="A business has one policy at a time."
                )
            return found

    async def archive(self) -> None:
        """Archive every business of this node, and return when all of it is confirmed."""
        self.check_loop()
        if self.options.archive_url is None:
            raise ConfigError("the store was opened with archive=None.", hint="Open it with an archive.")
        for name in self.names():
            await (await self.business(name)).keeper.archive()

    async def checkpoint(self) -> None:
        """Checkpoint every business of this node."""
        self.check_loop()
        for name in self.names():
            await (await self.business(name)).keeper.checkpoint()

    def names(self) -> list[str]:
        """Businesses of this node, open or not, sorted."""
        options = self.options
        try:
            places = find_places(options.disk, options.root, options.namespace, options.cluster)
        except OSError as error:
            raise not_opened(options.root, error) from error
        return sorted({place.business for place in places if place.node == self.node} | set(self.businesses))

    def stats(self) -> dict[str, Any]:
        """Numbers about the store and its open businesses; JSON can hold them."""
        disk = self.options.disk
        return {
            "root": str(self.options.root),
            "namespace": self.options.namespace,
            "cluster": self.options.cluster,
            "node": self.node,
            "archive": self.options.archive_url,
            "disk": space_stats(disk, self.options.root, self.options.settings.reserve_bytes),
            "businesses": {name: business.stats() for name, business in sorted(self.businesses.items())},
        }

    async def close(self, *, archive: bool) -> None:
        """Close every business, cleanly, and let go of everything.

        Cancelled, it goes on, and calling it again waits for its end; once it has ended, that does nothing.
        """
        if self._loop.is_closed():
            self._let_go()
        elif not (self._closed if self._closing is None else self._closing.done()):
            self.check_loop()
            self._closing = self._closing or self._loop.create_task(self._close(archive=archive))
            await asyncio.shield(self._closing)

    async def _close(self, *, archive: bool) -> None:
        async with self._opening:
            self._closed = True
        self._ticker.cancel()
        await asyncio.gather(self._ticker, return_exceptions=True)
        closing = (business.close(archive=archive) for business in self.businesses.values())
        failures = await asyncio.gather(*closing, return_exceptions=True)
        await self._around.archiver.close()
        self._archive_workers.close()
        self._workers.close()
        for failure in failures:
            if failure is not None:
                raise failure

    async def _tick(self) -> None:
        """Every second, see what is due. A business that nobody writes to and that owes nothing costs nothing."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for business in list(self.businesses.values()):
                await business.keeper.tick()

    def _ticked(self, ticker: asyncio.Task[None]) -> None:
        """Should a bug have stopped it, say so: nothing is archived or checkpointed any more, and writes go on."""
        if not ticker.cancelled() and (error := ticker.exception()) is not None:
            self._logger.error(
                "upkeep has stopped; close and open the store again", root=str(self.options.root), exc_info=error
            )

    def _let_go(self) -> None:
        """The event loop was closed before the store: end the logs as a crash does, once no thread of ours writes."""
        self._closed = True
        self._archive_workers.close()
        self._workers.close()
        self._around.archiver.let_go()
        for business in self.businesses.values():
            business.log.let_go()

    def forked(self) -> None:
        """In a child process the store is closed: it goes on in the parent."""
        self._closed = True

    def check_loop(self) -> None:
        """`WrongLoop` on another event loop than the store's; `StoreClosed` once that can be used no more, or in a child."""
        if asyncio.get_running_loop() is not self._loop:
            self._check_open()
            raise WrongLoop(
                "the store was opened on another event loop, and can be used and closed on that one only; nothing was written.",
                hint="Use `kvwal.open`, whose store serves any thread, or a store (a node, or a root) for each event loop.",
            )

    def _place(self, business: str) -> Place:
        return Place(self.options.namespace, self.options.cluster, business, self.node)

    def _check_open(self) -> None:
        if self._closed or self._loop.is_closed():
            raise StoreClosed("the store is closed, or was opened in another process.", hint="Open it again.")
