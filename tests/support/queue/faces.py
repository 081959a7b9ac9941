"""One set of tests for both faces: the synchronous store with the methods of the asynchronous one, each call on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec

from kvwal.client.queues.queue import ClusterQueue
from kvwal.store.aio.queue import Queue as AioQueue
from kvwal.structures.queue.queue import Queue
from kvwal.structures.queue.state import QueueState

PLAIN = {"name", "timestamp", "__setitem__", "__delitem__"}
OF_BLOCK = {"put", "put_many", "__setitem__"}
"""In a block these methods write nothing, and are no coroutines."""


class OnThreads:
    """A synchronous store, business, queue, map or block, for tests that are written for the asynchronous ones."""

    def __init__(self, of: Any, *, block: bool = False) -> None:
        self._of = of
        self._block = block

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if name in PLAIN or (self._block and name in OF_BLOCK):
            return found
        if name in ("queue", "map", "business"):
            return lambda *given: OnThreads(found(*given), block=self._block)
        if name in ("browse", "items"):
            return partial(each, found)
        if not callable(found):
            found = partial(getattr, self._of, name)
        return partial(asyncio.to_thread, found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._of[key] = value

    def transaction(self) -> OnThreads:
        """A block of the other kind, for `async with`."""
        return OnThreads(self._of.transaction(), block=True)

    async def count(self) -> int:
        """`len`, which is a coroutine on the asynchronous side."""
        return len(self._of)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._of.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._of.__exit__, kind, error, trace)


def is_of_cluster(q: Any) -> bool:
    """Whether this is a queue of a cluster."""
    return isinstance(q, OnThreads) and isinstance(q._of, ClusterQueue)


async def each(call: Any) -> AsyncIterator[Any]:
    """What an iterator gives."""
    for item in call():
        yield item


async def content(q: Any) -> list[Any]:
    """The items that can be taken, in order."""
    return [item async for item in q.browse()]


async def waits(q: Any, takers: int) -> None:
    """Return when so many takers wait for an item of the queue."""
    of = q._of if isinstance(q, OnThreads) else q
    if isinstance(of, ClusterQueue):
        while (await asyncio.to_thread(of.counts))[2] < takers:
            pass
        return
    state = await _state_of(q)
    while state.waiters.takers < takers:
        await asyncio.sleep(0)


async def putters(q: Any, number: int) -> None:
    """Return when `number` putters wait for room in the queue."""
    if is_of_cluster(q):
        await waits(q, number)
        return
    state = await _state_of(q)
    while state.waiters.putters < number:
        await asyncio.sleep(0)


async def _state_of(q: Any) -> QueueState:
    of = q._of if isinstance(q, OnThreads) else q
    if isinstance(of, AioQueue):
        of = await of._reading()
    assert isinstance(of, Queue)
    return of._state


def emptied(business: Any) -> None:
    """All tests use one business of the cluster."""
    for name in ("", "todo", "done", "a", "b"):
        q = business.queue(name)
        q.purge()
        q.set_options(**dict.fromkeys(msgspec.structs.asdict(q.options())))
    for name in ("", "state"):
        business.map(name).clear()
