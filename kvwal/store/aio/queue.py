"""The asynchronous queue: items are taken in the order in which they were put, each by one taker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from datetime import date
from functools import partial
from typing import Any

from kvwal.config import Flush
from kvwal.counted import counted
from kvwal.entry import DataEntry, Entry, is_claimed
from kvwal.errors import ContentDamaged, KvwalError, QueueFull
from kvwal.store.aio.structure import AsyncStructure, OpenStore
from kvwal.store.aio.transaction import AsyncTransaction, hand_over
from kvwal.store.aio.waiting import TaskWaiter, put_when_room, taken_by, uncancelled
from kvwal.structures.business import LocalBusiness
from kvwal.structures.queue.capacity import room_of
from kvwal.structures.queue.changes import MOST_TAKEN, QueueChanges
from kvwal.structures.queue.options import Changes, QueueOptions, SettableOptions
from kvwal.structures.queue.positions import of_items, position_of, priority_of, queue_structure
from kvwal.structures.queue.queue import Queue as SyncQueue
from kvwal.structures.queue.queue import QueuedItem
from kvwal.structures.queue.transaction import QueuePuts
from kvwal.structures.queue.waiting import checked_timeout, first_of
from kvwal.structures.queue_items.reservation import Reservation
from kvwal.structures.time_to_live import TimeToLive
from kvwal.structures.transaction import TransactionChanges
from kvwal.structures.watch import AsyncWatch
from kvwal_archive.errors import ArchiveError

_SHOWN = 10
"""Places of items that an error names."""


class Queue(AsyncStructure, AsyncIterator[Any], SettableOptions[Coroutine[Any, Any, QueueOptions]]):
    """A queue of items in a business's log, with the promises of the synchronous `Queue`. Any number of tasks of the loop may use
    it. `async for item in q` takes each item, and waits for the next one, for ever.

    A take that is cancelled, by `asyncio.timeout` too, has taken nothing. If the log writer has it already, it puts the items
    back at their old places, and raises `CancelledError` when they are durable there; another taker may have taken later items
    meanwhile. If the disk is full, the log fails or the store closes at that moment, it raises that error with the places of the
    items, which `history` shows. A put that is cancelled is done whole or not at all, as a put of `Map`.

    The business is opened at the first call. A call on another event loop than the store's raises `WrongLoop`.
    """

    def __init__(self, store: OpenStore, business: str, name: str = "", flush: Flush | None = None) -> None:
        """The queue `name` of a business; its own without a name. Raises `InvalidName`."""
        super().__init__(store, business, flush)
        self._queue_name = name
        self._structure = queue_structure(name)
        self._queue: SyncQueue | None = None
        """The queue as threads use it: its reads, the changes that it builds and its takers serve the tasks, too."""

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} of {self._store!r}>"

    @property
    def name(self) -> str:
        """The business, and behind a slash the structure: `work/queue`, `work/queue/todo`."""
        return f"{self._name}/{self._structure}"

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
        """Put an item at the end of its priority, -16 to 15, and return the timestamp. It is gone after `ttl`, if not taken, and
        handed out after `delay` at the earliest.

        If the queue is full, it waits up to `timeout` seconds for room (None: without end, 0: not at all), then `queue.Full`.
        """
        return await self.put_many((item,), priority=priority, ttl=ttl, delay=delay, timeout=timeout, sync=sync)

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
        """Put all items in one transaction, in their order, and return its timestamp. Waits for room as `put`, for all of them.

        `TooLarge` at once if they are more than the capacity of the queue.
        """
        if timeout is not None:
            checked_timeout(timeout)
        queue = self._queue or await self._reading()
        changes = queue._changes
        entries = changes.entries(items, priority, ttl)
        future: asyncio.Future[bool] = self._checked_loop().create_future()
        try:
            await self._submit(changes.put(entries, priority, future, delay, sync), future)
        except QueueFull as full:

            async def again() -> None:
                changes.renew(entries, ttl)
                future: asyncio.Future[bool] = self._checked_loop().create_future()
                await self._submit(changes.put(entries, priority, future, delay, sync), future)

            await put_when_room(queue._takers, again, room_of(entries), timeout, full)
        return entries[0].timestamp if entries else 0

    async def take(self, timeout: float | None = None) -> Any:
        """Take the first item. Waits up to `timeout` seconds (None: without end, 0: not at all), then `queue.Empty`."""
        return first_of(await self._taken(1, timeout), self.name)

    async def take_many(self, most: int, timeout: float | None = 0) -> list[Any]:
        """Take up to `most` items in one transaction, the first ones, at most 10,000. An empty list if there is none.

        Waits up to `timeout` seconds for the first item.
        """
        return await self._taken(most, timeout)

    async def __anext__(self) -> Any:
        """Take the first item. Waits until there is one."""
        return await self.take()

    async def peek(self) -> Any:
        """The first item, which stays. `queue.Empty` if there is none to take."""
        queue = await self._reading()
        return await self._on_thread(queue.peek)

    async def browse(self) -> AsyncIterator[Any]:
        """The items that can be taken, in order. They stay; items that are put or taken meanwhile may be there or not."""
        async for item in self.items():
            yield item.value

    async def items(self) -> AsyncIterator[QueuedItem]:
        """As `browse`, with what is known of each item."""
        queue = await self._reading()
        async for item in self._in_batches(queue.items):
            yield item

    async def count(self) -> int:
        """The number of items that can be taken. An item that expired counts until it is swept."""
        return len(await self._reading())

    async def in_flight(self) -> int:
        """The number of items that transactions hold."""
        return (await self._reading()).in_flight

    async def delayed(self) -> int:
        """The number of items that are not handed out yet: they were given back, or put with a delay."""
        return (await self._reading()).delayed

    async def options(self) -> QueueOptions:
        """The options of the queue, as they are stored in the log. `NewerVersion` if this version cannot read them."""
        return (await self._reading()).options()

    async def _set_options(self, changes: Changes) -> QueueOptions:
        queue = await self._reading()
        future: asyncio.Future[bool] = self._checked_loop().create_future()
        await self._submit(queue._changes.set_options(changes, future), future)
        return queue.options()

    async def purge(self) -> int:
        """Take all items that are there now away, the delayed ones too, and return how many. In transactions of 10,000."""
        purged, left = 0, await self.count() + await self.delayed()
        while left > 0 and (taken := (await self._take(min(left, MOST_TAKEN), purges=True))[0].entries):
            purged += len(taken)
            left -= len(taken)
        return purged

    async def move(self, to: str, most: int) -> int:
        """Move up to `most` items, the first ones, to the end of another queue of the business, in one transaction; return how
        many. They keep their priority and their time to live. `queue.Full` if the other queue has no room for them.
        """
        target = Queue(self._store, self._name, to, self._flush)
        business = await self._open_business()
        with business.codecs.hold():  # see `kvwal.structures.queue.queue.Queue.move`
            async with AsyncTransaction(self, counts=False) as t:
                target._attach(business)
                held = await QueueInTransaction(t.changes, self).hold(most)
                QueueInTransaction(t.changes, target).put_entries(held)
                return len(held)

    def transaction(self) -> QueueTransaction:
        """`async with q.transaction() as t: x = await t.take(); t.put(y)`: all of it at the end of the block, or nothing."""
        return QueueTransaction(self)

    async def history(self, priority: int, position: int) -> list[DataEntry]:
        """All changes of the item at a position that log and archive hold, newest first. They are read on a thread."""
        queue = await self._reading()
        return await self._on_thread(lambda: queue.history(priority, position))

    async def at(self, moment: int | date) -> list[QueuedItem]:
        """The items as they were at a moment, in order, those that were in flight among them. They are read on a thread."""
        queue = await self._reading()
        return await self._on_thread(lambda: queue.at(moment))

    def watch(self, after: int | date | str | None = None) -> AsyncWatch:
        """The puts and takes of the queue (a take is a delete), for `async for`: see `Map.watch`."""
        return self._watch(after, of_items(self._structure))

    async def _reading(self) -> SyncQueue:
        if self._queue is not None:
            return self._queue
        return self._attach(await self._find_business())

    def _attach(self, business: LocalBusiness) -> SyncQueue:
        if self._queue is None:  # of several tasks that open it, the first one
            self._business = business
            self._queue = SyncQueue(business, self._queue_name)
        return self._queue

    async def _open_business(self) -> LocalBusiness:
        return (await self._reading())._business

    def _opened_queue(self) -> SyncQueue:
        if self._queue is None:
            raise self._not_open()
        return self._queue

    async def _taken(self, most: int, timeout: float | None) -> list[Any]:
        queue = await self._reading()
        return await taken_by(queue._takers, partial(self._take_values, most), timeout)

    async def _take_values(self, most: int) -> list[Any]:
        """See `kvwal.structures.queue.queue.Queue._take_values`."""
        with self._opened_queue()._business.codecs.hold():
            held, waiter = await self._take(most)
            try:
                return await self._values(held.entries)
            except (ContentDamaged, ArchiveError, asyncio.CancelledError):
                await self._put_back(held, waiter)
                raise

    async def _values(self, entries: list[Entry]) -> list[Any]:
        """The values of items. Large ones are read on a thread."""
        queue = self._opened_queue()
        if any(is_claimed(entry.value_class) for entry in entries):
            return await self._on_thread(lambda: queue._decoded(entries))
        return queue._decoded(entries)

    async def _take(self, most: int, *, purges: bool = False) -> tuple[Reservation, TaskWaiter]:
        queue = self._opened_queue()
        held = Reservation()
        waiter = TaskWaiter(self._checked_loop())
        try:
            await hand_over(queue._business, queue._changes.take(most, held, waiter, purges=purges))
            await waiter.wait()
        except asyncio.CancelledError:
            if waiter.withdraw():
                queue._state.give_back(held)
            else:
                await self._put_back(held, waiter)
            raise
        except Exception:
            queue._state.give_back(held)
            raise
        return held, waiter

    async def _put_back(self, held: Reservation, taking: TaskWaiter) -> None:
        """Put the items of a take that the log writer has back at their places. Returns when they are durable there, or when the
        take was not written. The puts are submitted at once: a close that begins meanwhile would refuse them.
        """
        queue = self._opened_queue()
        if not held.entries:
            await taking.settled()
        waiters = [taking]
        for entries in queue._changes.taken(held):
            waiters.append(waiter := TaskWaiter(self._loop))
            try:
                await uncancelled(partial(hand_over, queue._business, queue._changes.put_back(entries, waiter)))
            except KvwalError as error:
                waiter.set_exception(error)
        for waiter in waiters:
            await waiter.settled()
        if taking.error is not None:
            queue._state.give_back(held)
        elif errors := [waiter.error for waiter in waiters if waiter.error is not None]:
            raise _not_put_back(errors[0], held.entries, self.name)

    async def _hold(self, most: int, held: Reservation, *, decodes: bool) -> None:
        """Hand out up to `most` items."""
        changes = self._opened_queue()._changes
        future: asyncio.Future[bool] = self._checked_loop().create_future()
        await self._submit(changes.hold(most, held, future, decodes=decodes), future)


class QueueInTransaction(QueuePuts):
    """The takes and puts of one queue in a block, for a task."""

    def __init__(self, changes: TransactionChanges, queue: Queue) -> None:
        super().__init__(changes)
        self._queue = queue

    async def take(self, timeout: float | None = None) -> Any:
        """Take the first item: it is in flight until the end of the block. Waits, and raises `queue.Empty`, as `Queue.take`."""
        return first_of(await self._taken(1, timeout), self._queue.name)

    async def take_many(self, most: int, timeout: float | None = 0) -> list[Any]:
        """Take up to `most` items, as `Queue.take_many`: they are in flight until the end of the block."""
        return await self._taken(most, timeout)

    async def hold(self, most: int) -> list[Entry]:
        """Take up to `most` items as they are stored, without a wait. If the task is cancelled meanwhile, it has taken none."""
        return await self._held(most, decodes=False)

    async def _held(self, most: int, *, decodes: bool) -> list[Entry]:
        block = self._block()
        held = block.reserve()
        try:
            await self._queue._hold(most, held, decodes=decodes)
        except BaseException:
            self._queue._opened_queue()._state.give_back(held)
            raise
        finally:
            block.release(held)
        return held.entries

    async def _taken(self, most: int, timeout: float | None) -> list[Any]:
        self._block_changes.check_open()
        queue = self._queue._opened_queue()
        return await self._queue._values(
            await taken_by(queue._takers, partial(self._held, most, decodes=True), timeout)
        )

    def _queue_changes(self) -> QueueChanges:
        return self._queue._opened_queue()._changes


class QueueTransaction(AsyncTransaction, QueueInTransaction):
    """A transaction of one queue: after any crash its takes and puts are done, or none is. See `AsyncTransaction`."""

    def __init__(self, target: Queue) -> None:
        AsyncTransaction.__init__(self, target)
        QueueInTransaction.__init__(self, self.changes, target)


def _not_put_back(error: BaseException, items: list[Entry], name: str) -> BaseException:
    """The error of a cancelled take whose items could not be put back, with their places."""
    places = ", ".join(f"{priority_of(item.key)}/{position_of(item.key)}" for item in items[:_SHOWN])
    more = "" if len(items) <= _SHOWN else f" and {len(items) - _SHOWN} more"
    error.add_note(
        f"{name}: a take of {counted(len(items), 'item')} was cancelled, and could not be undone. `history` has them, by priority"
        f" and position: {places}{more}."
    )
    return error
