"""`kvwal.aio.connect`: the maps of a cluster for tasks of an event loop.

It uses the same Hazelcast client as `kvwal.connect`. The client delivers answers on its own thread, and this module passes them
to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from hazelcast.future import Future as HazelcastFuture

from kvwal.client.address import ClusterAddress, check_address
from kvwal.client.cluster_business import ClusterBusiness
from kvwal.client.contents.aio import ClusterContents
from kvwal.client.failures import translate
from kvwal.client.link import Link
from kvwal.client.memory import make_entry, to_data
from kvwal.client.queues.aio import ClusterBusiness as BusinessOfCluster
from kvwal.client.queues.aio import ClusterQueue
from kvwal.client.queues.blocks import Renewals
from kvwal.client.queues.structures import ClusterStructures
from kvwal.client.store import make_structures
from kvwal.entry import DataEntry, Entry
from kvwal.errors import StoreClosed, WrongLoop
from kvwal.hlc import to_timestamp
from kvwal.log.submission import Submission
from kvwal.ports.boundary import call_on, logged, when_done
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.aio.map import Map
from kvwal.structures.business import Business
from kvwal.structures.handle import Handle
from kvwal.structures.map.changes import EntryBuilder
from kvwal.structures.map.named import StructureCodecs, map_structure
from kvwal.structures.map.reads import MapReads
from kvwal.structures.provenance.state import not_in_cluster
from kvwal.structures.watch import AsyncWatch, Feed, of_structure, parse_start

T = TypeVar("T")

_THREADS = 4
_not_delivered = logged("an answer of the cluster could not be passed to its task, which is a bug")


class ClusterMap(Map):
    """A map of the cluster for the tasks of one event loop."""

    def __init__(self, store: ClusterStore, name: str) -> None:
        self._cluster = store
        self._name = name
        self._business: _Business | None = None
        self._reads: MapReads | None = None
        self._changes: EntryBuilder | None = None
        self._loop = asyncio.get_running_loop()

    async def get(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        entry = await self._find(key)
        return default if entry is None else self._ready().codecs.decode(entry.value, entry.value_class)

    async def contains(self, key: Any) -> bool:
        """Whether the key is there."""
        return await self._find(key) is not None

    async def entry(self, key: Any) -> DataEntry | None:
        """The latest entry of `key` with its raw bytes, None if it is absent."""
        entry = await self._find(key)
        return None if entry is None else entry.public()

    async def count(self) -> int:
        """How many keys are there."""
        return await self._run(len, await self._reading())

    async def scan(self, prefix: str | bytes | tuple[Any, ...] | None = None) -> AsyncIterator[tuple[Any, Any]]:
        """Keys and values in key order: all of them, or those whose key begins with `prefix`: see `kvwal.Map.scan`."""
        for item in await self._run(list, (await self._reading()).scan, prefix):
            yield item

    async def _find(self, key: Any) -> Entry | None:
        await self._reading()
        identity = self._opened_reads().identity(key)
        if identity is None:
            return None
        business, (key_class, data) = self._ready(), identity
        value = await self._answer(business, partial(business.proxy.get, to_data(data, key_class)))
        return None if value is None else make_entry(data, key_class, value)

    async def _expires(self, business: Business, key_class: str, key: bytes) -> int | None:
        return await self._on_thread(partial(business.state.expires, key_class, key))

    async def _answer(self, business: _Business, begin: Callable[[], HazelcastFuture[T]]) -> T:
        self._checked_loop()
        future: asyncio.Future[T] = self._loop.create_future()

        def answered(answer: HazelcastFuture[T]) -> None:
            error = answer.exception()
            if error is None:
                business.deliver(lambda: None if future.done() else future.set_result(answer.result()))
            else:
                translated = translate(error, business.label, writes=False)
                business.deliver(lambda: None if future.done() else future.set_exception(translated))

        def failed(error: BaseException) -> None:
            business.deliver(lambda: None if future.done() else future.set_exception(error))

        when_done(begin(), answered, failed)
        return await future

    async def _on_thread(self, call: Callable[[], T]) -> T:
        self._checked_loop()
        self._cluster.link.check_open()
        return await self._cluster.workers.run(call)

    async def _run(self, consume: Callable[[Any], T], source: Any, *arguments: Any) -> T:
        return await self._on_thread(lambda: consume(source(*arguments) if arguments else source))

    async def _open(self) -> EntryBuilder:
        link = self._cluster.link
        return self._opened_with(await self._on_thread(partial(_Business, link, self._name, self._loop)))

    def _opened_with(self, business: _Business) -> EntryBuilder:
        self._business = business
        self._reads = MapReads(business.state, business.codecs)
        self._changes = EntryBuilder(business)
        return self._changes

    def _ready(self) -> _Business:
        if self._business is None:
            raise StoreClosed(f"{self._name} is not open yet.", hint="Await one of its methods first.")
        return self._business

    def _checked_loop(self) -> asyncio.AbstractEventLoop:
        if asyncio.get_running_loop() is not self._loop:
            raise WrongLoop(
                "this map of a cluster belongs to another event loop; nothing was read or written.",
                hint="Use it on the loop that connected, or connect on this one.",
            )
        return self._loop


class ClusterNamedMap(ClusterMap):
    """A map of a business of a cluster that has a name of its own, for the tasks of one event loop."""

    def __init__(self, store: ClusterStore, business: str, name: str) -> None:
        """Raises `InvalidName`."""
        super().__init__(store, business)
        self._map_name = name
        self._structure = map_structure(name)

    def __repr__(self) -> str:
        """The names of business and map."""
        return f"<Map '{self._name}/{self._structure}'>"

    async def at(self, moment: int | date) -> Mapping[Any, Any]:
        """See `Map.at`."""
        timestamp = to_timestamp(moment)
        codecs, business = (await self._reading())._codecs, self._ready()
        return MapReads(await self._on_thread(lambda: business.as_of(timestamp, self._structure)), codecs)

    def watch(self, after: int | date | str | None = None) -> AsyncWatch:
        """See `Map.watch`."""
        start = parse_start(after)

        async def begin() -> Feed:
            await self._reading()
            business = self._ready()
            return await self._on_thread(lambda: business.feed(start, self._structure))

        return AsyncWatch(begin, self._on_thread, of_structure(self._structure))

    async def _open(self) -> EntryBuilder:
        structures = await self._cluster.structures(self._name)
        await self._on_thread(lambda: structures.map(self._map_name))  # the members know of it from now on
        return await super()._open()

    def _opened_with(self, business: _Business) -> EntryBuilder:
        codecs = StructureCodecs(business.codecs, self._structure)
        self._business = business
        self._reads = MapReads(business.state.of(self._structure), codecs)
        self._changes = EntryBuilder(business, codecs)
        return self._changes


class _Business(ClusterBusiness):
    """A business whose futures belong to an event loop, and whose tasks may wait for a slot."""

    def __init__(self, link: Link, name: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(link, name, partial(_on_loop, loop))
        self._loop = loop
        self._freed: asyncio.Future[None] | None = None

    async def submit_soon(self, submission: Submission) -> None:
        """See `structures.business.Business.submit_soon`."""
        try:
            async with asyncio.timeout(self.timeout):
                while not self.offer(submission):
                    if self._freed is None:
                        self._freed = self._loop.create_future()
                    elif not self._freed.done():
                        await asyncio.shield(self._freed)
                    else:
                        self._freed = None
        except TimeoutError:
            raise self.overloaded() from None

    def release_slot(self) -> None:
        """See `ClusterBusiness.release_slot`. It wakes the tasks that wait for a slot.

        A task tries once more after it has set `_freed`, so a slot that is released meanwhile is not missed.
        """
        super().release_slot()
        if self._freed is not None:
            self.deliver(self._wake)

    def _wake(self) -> None:
        if self._freed is not None and not self._freed.done():
            self._freed.set_result(None)


def _on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed, so no task waits
        call_on(loop, call, _not_delivered)


class ClusterStore(Handle):
    """A connection to a cluster for this event loop; `async with` opens and closes it."""

    def __init__(self, address: ClusterAddress) -> None:
        self.workers = ThreadWorkers("kvwal-client", _THREADS)
        self._address = address
        self._link: Link | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._renewals = Renewals()

    def __repr__(self) -> str:
        return f"<ClusterStore of {self._address}>"

    @property
    def link(self) -> Link:
        """The connection. Raises `StoreClosed` before the store is opened and after it is closed."""
        if self._link is None:
            raise StoreClosed(
                "the store is not open.", hint="Use it inside `async with kvwal.aio.connect(…) as store`."
            )
        return self._link

    @property
    def hazelcast(self) -> Any:
        """Hazelcast's own client, for predicates on values stored as JSON. Its writes to maps are durable too."""
        return self.link.client

    def map(self, name: str) -> ClusterMap:
        """The map `name` of the cluster, with a log of that name on every node."""
        return ClusterMap(self, name)

    def queue(self, name: str) -> ClusterQueue:
        """The queue of the business `name`: see `ClusterQueue`."""
        return self.business(name).queue()

    def content(self, name: str) -> ClusterContents:
        """The contents of the business `name`: see `ClusterContents`."""
        return self.business(name).content()

    def business(self, name: str) -> BusinessOfCluster:
        """The business `name`, with its maps, queues and contents, which commit together."""
        return BusinessOfCluster(self, name, partial(self._map_of, name))

    def provenance(self, name: str) -> NoReturn:
        """Raise `ConfigError`: a cluster has no provenance."""
        raise not_in_cluster(name)

    def _map_of(self, business: str, name: str) -> ClusterMap:
        return ClusterNamedMap(self, business, name) if name else self.map(business)

    async def on_thread(self, call: Callable[[], T]) -> T:
        """The result of a call that blocks. If the task is cancelled, the call ends first. Raises `WrongLoop`, `StoreClosed`."""
        if self._loop not in (None, asyncio.get_running_loop()):
            raise WrongLoop(
                "this connection belongs to another event loop; nothing was read or written.",
                hint="Use it on the loop that connected, or connect on this one.",
            )
        self.link.check_open()
        return await self.workers.run(call)

    async def structures(self, name: str) -> ClusterStructures:
        """A business of the cluster, as threads use it."""
        return await self.on_thread(partial(make_structures, self.link, self._renewals, name, self))

    async def close(self) -> None:
        """Close the connection. Calls that wait for an answer fail with `CommitUnknown`. A second close does nothing."""
        link, self._link = self._link, None
        self._renewals.close()
        if link is not None and link.is_forked:
            return  # the threads are those of the parent
        if link is not None:
            await self.workers.run(link.close)
        self.workers.close()

    async def __aenter__(self) -> Self:
        try:
            self._loop = asyncio.get_running_loop()
            await self.workers.run(self._connect)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _connect(self) -> None:
        self._link = Link(self._address)


def connect(
    addresses: str | Sequence[str],
    *,
    cluster: str = "local",
    namespace: str = "default",
    timeout: float = 30.0,
    token: str | None = None,
    authority: str | None = None,
) -> ClusterStore:
    """A store of the cluster for `async with`. The arguments are those of `kvwal.connect`."""
    return ClusterStore(check_address(addresses, cluster, namespace, timeout, token, authority))
