"""The waits of a task for an item of a queue of a cluster, and for room; a take is undone if its task is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from kvwal.client.queues.structures import ClusterStructures
from kvwal.client.queues.transaction import BlockQueue
from kvwal.cluster.queues.requests import Item, Put
from kvwal.errors import QueueFull
from kvwal.ports.clock import SYSTEM
from kvwal.store.aio.waiting import uncancelled
from kvwal.structures.queue.waiting import checked_timeout

T = TypeVar("T")

_PAUSE_SECONDS = 0.1
"""Between two looks of a task that waits for an item: the threads of the client do not wait for it."""
Undo = Callable[[list[Item]], None]
"""Gets, on a thread, the items of a take whose task was cancelled meanwhile."""


class Client(Protocol):
    """The connection of an event loop, as its queues use it."""

    async def on_thread(self, call: Callable[[], T]) -> T:
        """The result of a call that blocks. If the task is cancelled, the call ends first. Raises `WrongLoop`, `StoreClosed`."""
        ...

    async def structures(self, name: str) -> ClusterStructures:
        """A business of the cluster, as threads use it."""
        ...


class RoomyQueue(Protocol):
    """The queue of a cluster, as its puts wait for room."""

    def put_once(self, request: Put) -> int:
        """Put items, without a wait for room, and return the timestamp."""
        ...

    def may_put(self, request: Put) -> bool:
        """Whether there is room now, or a put says why there never is."""
        ...


async def awaited(
    client: Client, target: BlockQueue, take: Callable[[], list[Item]], undo: Undo, timeout: float | None
) -> list[Any]:
    """The values of what `take` gives, once that is something; an empty list after `timeout` seconds (None: never)."""
    timeout, begun = checked_timeout(timeout), SYSTEM.elapsed()
    while not (items := await _taken(client, take, undo)):
        if not await _is_there(client, target, None if timeout is None else begun + timeout):
            return []
    return target.decoded(items)


async def put_when_room(client: Client, target: RoomyQueue, request: Put, timeout: float | None) -> int:
    """Put items once there is room; return the timestamp. After `timeout` seconds (None: never) `QueueFull`.

    A task that is cancelled while it waits has put nothing.
    """
    timeout, begun = checked_timeout(timeout), SYSTEM.elapsed()
    while True:
        try:
            return await client.on_thread(partial(target.put_once, request))
        except QueueFull:
            if not await _may_put(client, target, request, None if timeout is None else begun + timeout):
                raise


async def _may_put(client: Client, target: RoomyQueue, request: Put, until: float | None) -> bool:
    """Wait until there may be room, or until a time of the monotonic clock. Returns whether there may be."""
    while True:
        left = _PAUSE_SECONDS if until is None else until - SYSTEM.elapsed()
        if left <= 0:
            return False
        await asyncio.sleep(min(left, _PAUSE_SECONDS))
        if await client.on_thread(partial(target.may_put, request)):
            return True


async def _is_there(client: Client, target: BlockQueue, until: float | None) -> bool:
    """Wait until an item can be taken, or until a time of the monotonic clock. Returns whether one can be."""
    while True:
        left = _PAUSE_SECONDS if until is None else until - SYSTEM.elapsed()
        if left <= 0:
            return False
        await asyncio.sleep(min(left, _PAUSE_SECONDS))
        if await client.on_thread(target.is_there):
            return True


async def _taken(client: Client, take: Callable[[], list[Item]], undo: Undo) -> list[Item]:
    got: list[Item] = []
    try:
        await client.on_thread(lambda: got.extend(take()))
    except asyncio.CancelledError:  # the call has ended all the same
        if got:
            await uncancelled(partial(client.on_thread, partial(_undo_once, undo, got)))
        raise
    return got


def _undo_once(undo: Undo, got: list[Item]) -> None:
    """Undo a take, unless this was called before: a task that is cancelled twice calls it twice."""
    if got:
        undo(list(got))
        got.clear()
