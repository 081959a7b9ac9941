"""The asynchronous store: its engine runs on the caller's event loop."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kvwal.config import Flush, Settings
from kvwal.errors import StoreClosed
from kvwal.log.reader import Progress
from kvwal.store.aio.business import Business
from kvwal.store.aio.content import Contents
from kvwal.store.aio.map import Map
from kvwal.store.aio.provenance import Provenance
from kvwal.store.aio.queue import Queue
from kvwal.store.engine import Engine
from kvwal.store.options import Default, Options
from kvwal.structures.handle import Handle


class Store(Handle):
    """An open store on this event loop; `async with` closes it. The methods are those of the synchronous `Store`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._engine: Engine | None = None

    def __repr__(self) -> str:
        return f"<Store {str(self._options.root)!r}>"

    def map(self, name: str, flush: Flush | None = None) -> Map:
        """The map of the business `name`; its first call opens it, and may raise what the synchronous `map` raises."""
        return Map(self, name, flush)

    def queue(self, name: str, flush: Flush | None = None) -> Queue:
        """The queue of the business `name`, which its first call opens, as that of a map."""
        return self.business(name, flush).queue()

    def content(self, name: str, flush: Flush | None = None) -> Contents:
        """The contents of the business `name`, which is opened at the first call, as that of a map."""
        return self.business(name, flush).content()

    def business(self, name: str, flush: Flush | None = None) -> Business:
        """The business `name`, whose maps, queues and contents commit together. Its first call opens it, as that of a map."""
        return Business(self, name, flush)

    def provenance(self, name: str) -> Provenance:
        """The events of the business `name`, of each change of its items. The first call opens it, and switches it on."""
        return Provenance(self, name, None)

    async def checkpoint(self) -> None:
        """Make a snapshot of every business that holds all entries up to now. Writes go on meanwhile."""
        await self._engine_now().checkpoint()

    async def archive(self) -> None:
        """Archive all entries up to now, and return when they are confirmed. Raises `ArchiveError` if that fails."""
        await self._engine_now().archive()

    async def backup(self, folder: str | Path) -> None:
        """Copy all logs under the root into `folder`: see `kvwal.Store.backup`."""
        await self._engine_now().backup(folder)

    def stats(self) -> dict[str, Any]:
        """Numbers about the store and each open business. JSON can hold them."""
        return self._engine_now().stats()

    async def close(self, *, archive: bool | None = None) -> None:
        """Write all waiting entries, end the logs cleanly, and release the locks. An archive that was named gets the tail first.

        Every business is closed, also when closing another one fails. The first failure is raised, with the rest in its notes
        and its `others`. If the caller is cancelled, the closing goes on; a second call waits for its end. If the event loop
        ends first (`asyncio.run` ends while the store is open), the logs are left as a crash leaves them, with every
        acknowledged write, and the locks are released.
        """
        if self._engine is not None:
            await self._engine.close(archive=self._options.archive_named if archive is None else archive)

    async def __aenter__(self) -> Self:
        self._engine = Engine(self._options, own_loop=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _engine_now(self) -> Engine:
        if self._engine is None:
            raise StoreClosed("the store is not open.", hint="Use it inside `async with kvwal.aio.open(…) as store`.")
        return self._engine


def open_store(
    root: str | Path,
    *,
    namespace: str = "default",
    cluster: str = "local",
    node: str | None = None,
    archive: str | Path | Default | None = Default.ARCHIVE,
    flush: Flush = "sync",
    storage_options: dict[str, Any] | None = None,
    settings: Settings | None = None,
    accept_clock: bool = False,
    progress: Progress | None = None,
) -> Store:
    """The store in the folder `root`, to be opened with `async with`. The arguments are those of `kvwal.open`."""
    return Store(
        Options(
            root, namespace=namespace, cluster=cluster, node=node, archive=archive, flush=flush,
            storage_options=storage_options, settings=settings, accept_clock=accept_clock, progress=progress,
        )
    )  # fmt: skip
