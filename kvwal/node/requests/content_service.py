"""Content service of a member: it tells clients where the bytes of contents go, and changes names for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kvwal.cluster.contents.requests import Begin, Begun, Change, Changed, changes_of, encode, to_request
from kvwal.cluster.map_names import has_log, to_business
from kvwal.cluster.recovery_buffer import as_recovery_buffer
from kvwal.errors import ConfigError, Overloaded
from kvwal.node.adapters.live_members import CONTENTS
from kvwal.node.requests.loop import Answer
from kvwal.node.requests.own_transactions import check_versions, run_transaction
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal_archive.objects import Objects
from kvwal_archive.registry import register

_AT_ONCE = 32
"""Requests that are answered at once: fewer than the threads that the requests of clients have on a member."""


class ContentService:
    """The content service of one member. Used on the node's event loop."""

    def __init__(
        self, instance: Any, engine: Engine, objects: Callable[[], Objects], workers: Workers, others: Answer
    ) -> None:
        """`instance` is Hazelcast's, `objects` opens the archive of the cluster, `others` answers requests that are not for
        contents.
        """
        self._instance = instance
        self._engine = engine
        self._objects = objects
        self._workers = workers
        self._others = others
        self._registered: dict[str, str] = {}
        self._asked = 0

    async def answer(self, text: bytes) -> bytes:
        """The answer to a client's request."""
        request = to_request(text)
        if request is None:
            return await self._others(text)
        if not has_log(request.map):
            raise ConfigError(f"{request.map!r} has no log, and so no contents; nothing was read or written.")
        if self._asked >= _AT_ONCE:
            raise Overloaded(
                f"{request.map}: {_AT_ONCE} requests for contents wait at this member; nothing was written."
            )
        self._asked += 1
        try:
            return encode(await (self._begin(request) if isinstance(request, Begin) else self._change(request)))
        finally:
            self._asked -= 1

    async def _begin(self, request: Begin) -> Begun:
        """See `Begin`. The log of this member is in the archive's registry then."""
        if self._engine.options.archive_url is None:
            raise ConfigError(
                f"{request.map}: the bytes of contents of a cluster go to its archive, and it has none; nothing was written.",
                hint="Start the nodes with --archive.",
            )
        check_versions(self._instance, request.map, CONTENTS, "contents")
        name = to_business(request.map)
        business = await self._engine.business(name)
        as_recovery_buffer(business.memory).stop_collecting()
        log_id = business.log.log_id
        objects = self._objects()
        if self._registered.get(name) != log_id:
            await self._workers.run(partial(register, objects, business.place, log_id))
            self._registered[name] = log_id
        return Begun(objects.url, self._engine.node, log_id, self._engine.options.clock.wall_ms())

    async def _change(self, request: Change) -> Changed:
        entries, guards = changes_of(request, self._engine.options.clock.wall_ms())
        return Changed(*await self._workers.run(partial(run_transaction, self._instance, request.map, entries, guards)))
