"""The synchronous store, as `kvwal.open` returns it. Its engine runs on an event loop on a thread of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakMethod

from kvwal.config import Flush, Settings
from kvwal.errors import ConfigError, StoreClosed
from kvwal.history.bounded_cache import decoded_rows
from kvwal.history.restore.backup import backup
from kvwal.log.reader import Progress
from kvwal.log.unlocked.known import KnownSegments
from kvwal.log.waiter import program_ends
from kvwal.ports.boundary import OnError
from kvwal.ports.locks import interpreter_ends
from kvwal.ports.processes import tell_if_forked
from kvwal.ports.tasks import LoopEnded, LoopThread
from kvwal.sql.engine import answered
from kvwal.sql.source import MemorySource, Source
from kvwal.store.engine import Engine
from kvwal.store.options import Default, Options
from kvwal.store.read_only import ReadOnlyBusiness, source_of_files
from kvwal.store.reading.figures import FileStates, read_only_stats, sizes_of_files, states_of_files
from kvwal.structures.content.content import Contents
from kvwal.structures.facade import Structures
from kvwal.structures.handle import Handle
from kvwal.structures.map.map import Map
from kvwal.structures.provenance.provenance import Provenance
from kvwal.structures.queue.queue import Queue

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class Store(Handle):
    """An open store. Any number of threads may use it; leaving the `with` block closes it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.root = options.root
        self.namespace = options.namespace
        self.cluster = options.cluster

    def __repr__(self) -> str:
        return f"<Store {str(self.root)!r}>"

    @property
    def options(self) -> Options:
        """What it was opened with: where its logs and its archive are."""
        return self._options

    @property
    def node(self) -> str | None:
        """The node whose log is used; None if the logs of all nodes are read."""
        return self._options.named_node

    def map(self, name: str, flush: Flush | None = None) -> Map:
        """The map `name`, which is opened at first use: locked and recovered.

        `flush` overrides the store's flush policy for it. Raises `InvalidName`, `StoreLocked`, `CorruptLog`, `ClockSkew`.
        """
        raise NotImplementedError

    def queue(self, name: str, flush: Flush | None = None) -> Queue:
        """The queue of the business `name`, which is opened as by `map`: see `Queue`."""
        return self.business(name, flush).queue()

    def content(self, name: str, flush: Flush | None = None) -> Contents:
        """The contents of the business `name`, which is opened as by `map`: see `Contents`."""
        return self.business(name, flush).content()

    def business(self, name: str, flush: Flush | None = None) -> Structures:
        """The business `name`, with its maps, queues and contents, which commit together. It is opened as by `map`."""
        raise NotImplementedError

    def provenance(self, name: str, *, switches_on: bool = True) -> Provenance:
        """The events of the business `name`, of each change of its items: see `Provenance`. Asking for it switches it on."""
        return self.business(name).provenance(switches_on=switches_on)

    def businesses(self) -> list[str]:
        """Names of the existing maps, sorted. The log of a map is its business."""
        raise NotImplementedError

    def sql(self, statement: str) -> pa.Table:
        """The answer to one statement of DuckDB's SQL, as a table of Arrow (`.to_pandas()`, `polars.from_arrow`).

        Tables are those of `kvwal query`: each map, `<map>_history`, and the typed tables of Spark's records. Moments
        have the zone UTC. Each table shows one moment. Raises `ConfigError` if DuckDB refuses the statement, and for a statement
        that does not read (INSERT, CREATE, COPY …).
        """
        with answered({"": self.source()}, statement) as answer:
            return answer.table()

    def source(self, statement: str = "") -> Source:
        """The businesses as SQL reads them. Entries that `statement` does not ask for may be missing."""
        raise NotImplementedError

    def checkpoint(self) -> None:
        """Make a snapshot of every map that holds all entries up to now. Writes go on meanwhile."""
        raise NotImplementedError

    def archive(self) -> None:
        """Archive all entries up to now, and return when they are confirmed. Raises `ArchiveError` if that fails."""
        raise NotImplementedError

    def backup(self, folder: str | Path) -> None:
        """Copy all logs under the root into `folder`, which becomes a root of its own. Writes, checkpoints and archiving go on.

        Each log is copied whole, as of one moment during the call: with every write that was acknowledged before the call. Logs
        are copied one after the other. Files that never change are hard links where that is possible, else copies. `folder` must
        be new or empty, and outside of the root; it appears when it is complete and durable. Raises `ConfigError`,
        `StorageFull`, `CorruptLog`, `Overloaded`.
        """
        raise NotImplementedError

    def stats(self) -> dict[str, Any]:
        """Numbers about the store and each open map. JSON can hold them."""
        raise NotImplementedError

    def close(self, *, archive: bool | None = None) -> None:
        """Write all waiting entries, end the logs cleanly, and release the locks. A second call waits for that, or does nothing.

        An archive that was named when the store was opened gets the tail first, unless `archive=False`. Every business is
        closed, also when closing another one fails. The first failure is raised, with the rest in its notes and its `others`.
        """
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class WritableStore(Store):
    """A store that holds the locks of the businesses it uses."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._is_open = False
        self._is_forked = False
        self._thread = LoopThread("kvwal", _abandon_if_held(WeakMethod(self._abandon)))
        try:
            self._engine = self._thread.run(self._start())
        except BaseException:
            self._thread.close()
            raise
        self._is_open = True
        tell_if_forked(self)

    def _abandon(self, error: BaseException) -> None:
        """Refuse waiting and new writes, because the event loop cannot go on."""
        engine: Engine | None = getattr(self, "_engine", None)
        if engine is not None:
            engine.abandon(error)

    async def _start(self) -> Engine:
        return Engine(self._options, own_loop=True)

    @property
    def node(self) -> str:
        """The node whose log is written."""
        return self._engine.node

    def map(self, name: str, flush: Flush | None = None) -> Map:
        """See `Store.map`."""
        return Map(self._run(lambda: self._engine.business(name, flush)), store=self)

    def business(self, name: str, flush: Flush | None = None) -> Structures:
        """See `Store.business`."""
        return Structures(self._run(lambda: self._engine.business(name, flush)), store=self)

    def businesses(self) -> list[str]:
        """See `Store.businesses`."""
        return self._engine.names()

    def source(self, statement: str = "") -> Source:
        """See `Store.source`. A business that is named is opened, if it was not."""
        return MemorySource(self.businesses, self.map, source_of_files(self._options, self.node))

    def checkpoint(self) -> None:
        """See `Store.checkpoint`."""
        self._run(self._engine.checkpoint)

    def archive(self) -> None:
        """See `Store.archive`."""
        self._run(self._engine.archive)

    def backup(self, folder: str | Path) -> None:
        """See `Store.backup`."""
        self._run(lambda: self._engine.backup(folder))

    def stats(self) -> dict[str, Any]:
        """See `Store.stats`."""
        return self._engine.stats()

    def close(self, *, archive: bool | None = None) -> None:
        """See `Store.close`."""
        if self._is_forked:
            return
        with_archive = self._options.archive_named if archive is None else archive
        ending: Future[None] | None = None
        try:
            ending = self._thread.begin(self._engine.close(archive=with_archive))
            self._is_open = False
            self._thread.wait(ending)
        except LoopEnded:
            return
        finally:
            if ending is not None and ending.done():
                self._thread.close()

    def __del__(self) -> None:
        """Warn that the store was dropped unclosed, and close it without waiting."""
        if getattr(self, "_is_open", False):
            warnings.warn(
                f"unclosed store {self.root}: close it, or use `with`", ResourceWarning, stacklevel=2, source=self
            )
            engine = self._engine
            self._thread.end_after(lambda: engine.close(archive=False))

    def forked(self) -> None:
        """Close the store in a child process; it goes on in the parent."""
        self._is_open = False
        self._is_forked = True

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if not self._is_open:
            raise _closed()
        try:
            return self._thread.run(work())
        except LoopEnded:
            raise _closed() from None


def _abandon_if_held(abandon: WeakMethod[OnError]) -> OnError:
    """A callback for the store's thread that calls `abandon` if the store still exists.

    The thread lives until the store is closed, so a strong reference would keep a store that its users dropped.
    """

    def on_failure(error: BaseException) -> None:
        live_abandon = abandon()
        if live_abandon is not None:
            live_abandon(error)

    return on_failure


def _closed() -> StoreClosed:
    if interpreter_ends():
        return program_ends()
    return StoreClosed("the store is closed, or was opened in another process.", hint="Open it again.")


class ReadOnlyStore(Store):
    """A store that only reads the files under its root. Each `map` shows the files at the moment of its first read."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._known = KnownSegments(options.clock)
        self._decoded = decoded_rows()

    def __repr__(self) -> str:
        return f"<Store {str(self.root)!r}, read only>"

    def map(self, name: str, flush: Flush | None = None) -> Map:
        """The map as its files are at its first read, merged over all nodes unless one was named.

        That read loads all of it, and raises what is wrong with the files. `history`, `at` and `watch` do not load it.
        """
        return Map(self.read_business(name))

    def business(self, name: str, flush: Flush | None = None) -> Structures:
        """The business as its files are, merged over all nodes unless one was named."""
        return Structures(self.read_business(name))

    def read_business(self, name: str, *, logged: bool = False) -> ReadOnlyBusiness:
        """The business `name` as its files are. Its memory is not loaded until it is asked for.

        `logged` changes nothing: files hold all of an entry. It is there for `kvwal.location.readers.LocationReader`.
        """
        return ReadOnlyBusiness(name, self._options, self._known, self._decoded)

    def businesses(self) -> list[str]:
        """See `Store.businesses`."""
        return self._options.businesses()

    def sizes(self) -> dict[str, int | None]:
        """The bytes of the files of each business, over the nodes that are read; None if this user may not read its folder."""
        return sizes_of_files(self._options)

    def file_states(self) -> FileStates:
        """The states of the files that are read: equal if nothing was written between."""
        return states_of_files(self._options)

    def source(self, statement: str = "") -> Source:
        """See `Store.source`. The files are read when a statement needs them."""
        return source_of_files(self._options, self.node)

    def checkpoint(self) -> None:
        """Raise `ConfigError`: nothing is written here."""
        raise self._refusal()

    def archive(self) -> None:
        """Raise `ConfigError`: nothing is written here."""
        raise self._refusal()

    def backup(self, folder: str | Path) -> None:
        """See `Store.backup`."""
        backup(self._options.disk, self.root, folder, reserve=self._options.settings.reserve_bytes)

    def stats(self) -> dict[str, Any]:
        """Numbers that can be read without the locks."""
        return read_only_stats(self._options)

    def close(self, *, archive: bool | None = None) -> None:
        """Nothing to do."""

    def _refusal(self) -> ConfigError:
        return ConfigError("the store was opened with read_only=True.", hint="Open it for writing.")


def open_store(
    root: str | Path,
    *,
    namespace: str = "default",
    cluster: str = "local",
    node: str | None = None,
    archive: str | Path | Default | None = Default.ARCHIVE,
    flush: Flush = "sync",
    read_only: bool = False,
    storage_options: dict[str, Any] | None = None,
    settings: Settings | None = None,
    accept_clock: bool = False,
    progress: Progress | None = None,
) -> Store:
    """Open the store in the folder `root`, which is created if it does not exist.

    `node` defaults to the only one under the root, else `local`. `archive` is a folder or any fsspec URL, to which
    `storage_options` go. Its default is the folder `_archive` under the root, which does not survive the loss of the disk;
    None turns archiving off. `flush` is `"sync"`, `"os"` or `Interval(...)`. `read_only=True` needs no lock; without `node` it
    reads the merge of all nodes. `progress(done, total, what)` is called with bytes while logs are recovered.

    Raises `ConfigError`. Errors of a log are raised when the log is first used.
    """
    options = Options(
        root, namespace=namespace, cluster=cluster, node=node, archive=archive, flush=flush,
        storage_options=storage_options, settings=settings, accept_clock=accept_clock, progress=progress,
    )  # fmt: skip
    return ReadOnlyStore(options) if read_only else WritableStore(options)
