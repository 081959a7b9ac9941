"""Queue service of a member: requests of clients for queues, and the businesses whose queues this member decides on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from kvwal.cluster.map_names import has_log
from kvwal.cluster.queues.requests import Await, encode, to_request
from kvwal.errors import ConfigError, KvwalError, Overloaded
from kvwal.node.queues.memory import HazelcastQueues
from kvwal.node.queues.owner import QueueOwner
from kvwal.node.requests.loop import Answer
from kvwal.ports.boundary import contain_awaiting, raised_to_awaiter, start_task
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers

_AT_ONCE = 48
"""Requests for queues that are answered at once: fewer than the threads that the requests of clients have on a member."""
_WAITING = 24
"""Requests beyond which a taker does not wait for an item here: it is answered at once, and asks again."""
_TICK_SECONDS = 1.0


class QueueService:
    """The queue service of one member. Used on the node's event loop."""

    def __init__(self, instance: Any, workers: Workers, clock: Clock, others: Answer) -> None:
        """`instance` is Hazelcast's; `others` answers requests that are not for queues."""
        self._make: Callable[[str, str], HazelcastQueues] = partial(HazelcastQueues, instance)
        self._workers = workers
        self._clock = clock
        self._others = others
        self._owners: dict[str, asyncio.Task[QueueOwner]] = {}
        self._asked = 0
        self._logger = get_logger(__name__)

    async def answer(self, text: bytes) -> bytes:
        """The answer to a client's request."""
        request = to_request(text)
        if request is None:
            return await self._others(text)
        if not has_log(request.map):
            raise ConfigError(f"{request.map!r} has no log, and so no queues; nothing was read or written.")
        if self._asked >= _AT_ONCE:
            raise Overloaded(f"{request.map}: {_AT_ONCE} requests for queues wait at this member; nothing was written.")
        if isinstance(request, Await) and self._asked >= _WAITING:
            request = Await(request.map, request.structure, 0.0)
        self._asked += 1
        try:
            return encode(await (await self._owner(request.map)).answer(request))
        finally:
            self._asked -= 1

    async def run(self) -> None:
        """Give back the items of takers that are silent, until the node leaves."""
        try:
            while True:
                await asyncio.sleep(_TICK_SECONDS)
                for name, begun in list(self._owners.items()):
                    if begun.done() and not _is_over(begun):
                        await self._end_expired(name, begun.result())
        finally:
            for begun in self._owners.values():
                begun.cancel()
                if begun.done() and not _is_over(begun):
                    begun.result().end()

    async def _end_expired(self, name: str, owner: QueueOwner) -> None:
        def failed(error: BaseException) -> None:
            trace = None if isinstance(error, KvwalError) else error
            self._logger.warning(
                "the claims of a silent taker are still in memory", map=name, error=str(error), exc_info=trace
            )

        await contain_awaiting(owner.end_expired, failed)

    async def _owner(self, name: str) -> QueueOwner:
        begun = self._owners.get(name)
        if begun is None or (begun.done() and _is_over(begun)):
            begun = self._owners[name] = start_task(self._begin(name), raised_to_awaiter)
        return await asyncio.shield(begun)

    async def _begin(self, name: str) -> QueueOwner:
        mark = f"{self._clock.random_bits(128):032x}"
        owner = QueueOwner(await self._workers.run(partial(self._make, name, mark)), self._workers, self._clock)
        await owner.begin()
        self._logger.info("decides on the queues", map=name)
        return owner


def _is_over(begun: asyncio.Task[QueueOwner]) -> bool:
    """Whether an owner ended, or could not begin."""
    return begun.cancelled() or begun.exception() is not None or begun.result().is_over
