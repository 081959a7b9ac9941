"""Queues of a cluster for the tasks of an event loop: the calls of the synchronous queue, on threads of the client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from datetime import date
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from kvwal.client.contents.aio import ClusterContents
from kvwal.client.queues.aio_transaction import AsyncClusterTransaction, AsyncQueueTransaction
from kvwal.client.queues.aio_waiting import Client, awaited, put_when_room
from kvwal.client.queues.queue import ClusterQueue as SyncQueue
from kvwal.entry import DataEntry
from kvwal.store.aio.map import Map
from kvwal.structures.handle import Handle
from kvwal.structures.queue.changes import checked_number
from kvwal.structures.queue.options import Changes, QueueOptions, SettableOptions
from kvwal.structures.queue.positions import of_items, queue_structure
from kvwal.structures.queue.queue import QueuedItem
from kvwal.structures.queue.waiting import first_of
from kvwal.structures.time_to_live import TimeToLive
from kvwal.structures.watch import AsyncWatch, Feed, parse_start

T = TypeVar("T")

_AT_ONCE = 1000


class ClusterQueue(Handle, AsyncIterator[Any], SettableOptions[Coroutine[Any, Any, QueueOptions]]):
    """A queue of a cluster for tasks: see `kvwal.store.aio.queue.Queue`, and `kvwal.client.queues.queue.ClusterQueue`.

    A take that is cancelled puts its items back at their old places before it raises `CancelledError`.
    """

    def __init__(self, client: Client, business: str, name: str = "") -> None:
        self._client = client
        self._business = business
        self._queue_name = name
        self._structure = queue_structure(name)
        self._queue: SyncQueue | None = None

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"

    @property
    def name(self) -> str:
        """See `Queue.name`."""
        return f"{self._business}/{self._structure}"

    async def put(
        self,
        item: Any,
        *,
        priority: int = 0,
        ttl: TimeToLive | None = None,
        delay: TimeToLive | None = None,
        timeout: float | None = None,
        sync: bool = False,
    ) -> int:
        """See `kvwal.client.queues.queue.ClusterQueue.put`."""
        return await self.put_many([item], priority=priority, ttl=ttl, delay=delay, timeout=timeout)

    async def put_many(
        self,
        items: Iterable[Any],
        *,
        priority: int = 0,
        ttl: TimeToLive | None = None,
        delay: TimeToLive | None = None,
        timeout: float | None = None,
        sync: bool = False,
    ) -> int:
        """See `kvwal.client.queues.queue.ClusterQueue.put_many`."""
        own = await self.opened()
        request = await self._client.on_thread(partial(own.request, items, priority, ttl, delay))
        return await put_when_room(self._client, own, request, timeout)

    async def take(self, timeout: float | None = None) -> Any:
        """See `Queue.take`."""
        return first_of(await self.take_many(1, timeout), self.name)

    async def take_many(self, most: int, timeout: float | None = 0) -> list[Any]:
        """See `Queue.take_many`."""
        own = await self.opened()
        checked_number(most)
        return await awaited(self._client, own, partial(own.take_once, most), own.put_back, timeout)

    async def __anext__(self) -> Any:
        """Take the first item. Waits until there is one."""
        return await self.take()

    async def peek(self) -> Any:
        """See `Queue.peek`."""
        return await self._client.on_thread((await self.opened()).peek)

    async def browse(self) -> AsyncIterator[Any]:
        """See `Queue.browse`."""
        async for item in self.items():
            yield item.value

    async def items(self) -> AsyncIterator[QueuedItem]:
        """See `Queue.items`."""
        items: Iterator[QueuedItem] = (await self.opened()).items()
        while batch := await self._client.on_thread(lambda: list(islice(items, _AT_ONCE))):
            for item in batch:
                yield item

    async def count(self) -> int:
        """The number of items that can be taken."""
        return len(await self._asked(lambda own: range(len(own))))

    async def in_flight(self) -> int:
        """See `Queue.in_flight`."""
        return await self._asked(lambda own: own.in_flight)

    async def delayed(self) -> int:
        """See `Queue.delayed`."""
        return await self._asked(lambda own: own.delayed)

    async def options(self) -> QueueOptions:
        """See `Queue.options`."""
        return await self._asked(lambda own: own.options())

    async def _set_options(self, changes: Changes) -> QueueOptions:
        return await self._asked(lambda own: own.set_options(**changes))

    async def purge(self) -> int:
        """See `Queue.purge`."""
        return await self._asked(lambda own: own.purge())

    async def move(self, to: str, most: int) -> int:
        """See `Queue.move`."""
        return await self._asked(lambda own: own.move(to, most))

    async def history(self, priority: int, position: int) -> list[DataEntry]:
        """See `Queue.history`."""
        return await self._asked(lambda own: own.history(priority, position))

    async def at(self, moment: int | date) -> list[QueuedItem]:
        """See `kvwal.client.queues.queue.ClusterQueue.at`."""
        return await self._asked(lambda own: own.at(moment))

    def watch(self, after: int | date | str | None = None) -> AsyncWatch:
        """See `Queue.watch`, for `async for`."""
        start = parse_start(after)

        async def begin() -> Feed:
            return await self._asked(lambda own: own.business.feed(start, own.structure))

        return AsyncWatch(begin, self._client.on_thread, of_items(self._structure))

    def transaction(self) -> AsyncQueueTransaction:
        """See `Queue.transaction`."""
        return AsyncQueueTransaction(self._client, self._business, self._queue_name)

    async def opened(self) -> SyncQueue:
        """The queue as threads use it."""
        if self._queue is None:
            structures = await self._client.structures(self._business)
            self._queue = structures.queue(self._queue_name)
        return self._queue

    async def _asked(self, call: Callable[[SyncQueue], T]) -> T:
        own = await self.opened()
        return await self._client.on_thread(partial(call, own))


class ClusterBusiness(Handle):
    """A business of a cluster for tasks: its maps, queues and contents, and transactions over all of them."""

    def __init__(self, client: Client, name: str, map_of: Callable[[str], Map]) -> None:
        """`map_of` makes a map of the business; its own one without a name."""
        self._client = client
        self._name = name
        self._map_of = map_of

    def __repr__(self) -> str:
        return f"<Business {self._name!r}>"

    @property
    def name(self) -> str:
        """The name of the business."""
        return self._name

    def map(self, name: str = "") -> Map:
        """The map `name` of the business; its own map, that of `ClusterStore.map`, without a name. Raises `InvalidName`."""
        return self._map_of(name)

    def queue(self, name: str = "") -> ClusterQueue:
        """The queue `name` of the business; its own, that of `ClusterStore.queue`, without a name. Raises `InvalidName`."""
        return ClusterQueue(self._client, self._name, name)

    def content(self, name: str = "") -> ClusterContents:
        """The contents `name` of the business; its own without a name. Raises `InvalidName`."""
        return ClusterContents(self._client, self._name, name)

    async def contents(self) -> list[str]:
        """The names of the contents that hold something, sorted; that of the business's own ones is empty."""
        structures = await self._client.structures(self._name)
        return await self._client.on_thread(structures.contents)

    async def queues(self) -> list[str]:
        """The names of the queues that hold items: see `kvwal.store.aio.business.Business.queues`."""
        structures = await self._client.structures(self._name)
        return await self._client.on_thread(structures.queues)

    def transaction(self) -> AsyncClusterTransaction:
        """`async with business.transaction() as t: t.map("state")["last"] = await t.queue("todo").take()`: all, or nothing."""
        return AsyncClusterTransaction(self._client, self._name)
