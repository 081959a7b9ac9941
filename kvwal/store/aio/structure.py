"""What all asynchronous structures share: the business that is opened at the first call, its loop, and the submission."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import date
from itertools import islice
from typing import Protocol, TypeVar

from kvwal.config import Flush
from kvwal.errors import StoreClosed
from kvwal.key_class import is_of_map
from kvwal.log.submission import Submission
from kvwal.store.engine import Engine
from kvwal.structures.business import Business, LocalBusiness
from kvwal.structures.handle import Handle
from kvwal.structures.watch import AsyncWatch, Feed, parse_start

T = TypeVar("T")
_AT_ONCE = 1000
"""Items that a thread reads before the loop gives them to its task."""


class OpenStore(Protocol):
    """The asynchronous store, as its structures use it."""

    def _engine_now(self) -> Engine:
        """The engine. `StoreClosed` outside the store's `async with` block."""
        ...


class AsyncStructure(Handle):
    """A structure of a business, for the tasks of one event loop. Its subclasses open the business at the first call."""

    def __init__(self, store: OpenStore, name: str, flush: Flush | None) -> None:
        """`name` is that of the business. Made on the loop of the store."""
        self._store = store
        self._name = name
        self._flush = flush
        self._business: Business | None = None
        self._loop = asyncio.get_running_loop()

    async def _open_business(self) -> Business:
        """The business, opened."""
        raise NotImplementedError

    async def _find_business(self) -> LocalBusiness:
        return await self._store._engine_now().business(self._name, self._flush)

    def _opened(self) -> Business:
        if self._business is None:
            raise self._not_open()
        return self._business

    def _not_open(self) -> StoreClosed:
        return StoreClosed(f"{self._name} is not open yet.", hint="Await one of its methods first.")

    def _checked_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._store._engine_now().check_loop()
        return loop

    def _submit(self, submission: Submission, future: asyncio.Future[T]) -> Awaitable[T]:
        """Hand over a transaction. If the ring has room, no coroutine is needed: the caller awaits the future itself."""
        business = self._business or self._opened()
        return future if business.offer(submission) else self._submit_soon(business, submission, future)

    async def _submit_soon(self, business: Business, submission: Submission, future: asyncio.Future[T]) -> T:
        await business.submit_soon(submission)
        return await future

    def _watch(self, after: int | date | str | None, shows: Callable[[str], bool] = is_of_map) -> AsyncWatch:
        start = parse_start(after)

        async def begin() -> Feed:
            business = await self._open_business()
            return await self._on_thread(lambda: business.feed(start))

        return AsyncWatch(begin, self._on_thread, shows, lambda: self._opened().codecs.whole)

    async def _in_batches(self, begin: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        """What the iterator of `begin` gives. It is read on a thread, many items at a time."""
        items = await self._on_thread(begin)
        while batch := await self._on_thread(lambda: list(islice(items, _AT_ONCE))):
            for item in batch:
                yield item

    async def _on_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, call)
