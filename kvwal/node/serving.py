"""Serving loop of a member: it looks after the membership, adopts killed members, and leaves if its own disk fails."""

from __future__ import annotations

import asyncio
import math
import sys
from functools import partial
from typing import Any

import jpype

from kvwal.errors import ClusterUnreachable, KvwalError, LogFailed, StorageFull
from kvwal.node import jvm, member
from kvwal.node.config import NodeOptions
from kvwal.node.health.status import NodeStatus
from kvwal.node.lifecycle import Lifecycle, Phase
from kvwal.node.parts import ServingParts
from kvwal.node.retries import retry_on
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers

LOOK_SECONDS = 0.25
_FULL_SECONDS = 10.0
_ADOPT_AGAIN_SECONDS = 10.0
_ADOPT_SECONDS = 1.0
READY = "kvwal node {node} is ready at {address}"


class ServingLoop:
    """The periodic work of one serving member. Used on the node's event loop."""

    def __init__(
        self,
        options: NodeOptions,
        parts: ServingParts,
        gate: Any,
        status: NodeStatus,
        lifecycle: Lifecycle,
        clock: Clock,
        workers: Workers,
    ) -> None:
        """`gate` is ReadyGate.java."""
        self._options = options
        self._parts = parts
        self._gate = gate
        self._status = status
        self._lifecycle = lifecycle
        self._clock = clock
        self._workers = workers
        self._full_since = math.inf
        self._logger = get_logger(__name__).bind(node=options.node)

    async def run(self) -> None:
        """Look after the membership until this is cancelled. `NotRecovered` once memory has lost a part; `LogFailed` or
        `StorageFull` once this member's disk has failed, and the others can serve without it."""
        while True:
            member.check_whole(self._gate)
            try:
                await self._parts.serving.keep_up()
                await self._serve_when_copied()
                await self._leave_if_failing()
            except ClusterUnreachable as error:
                self._logger.warning("the other members could not be asked", error=str(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def adopt(self) -> None:
        """Adopt the keys of killed members until this is cancelled."""
        adoption = self._parts.adoption
        errors = (KvwalError, jpype.JException)
        while True:
            await retry_on(adoption.step, errors, self._not_adopted, pause=_ADOPT_AGAIN_SECONDS)
            await asyncio.sleep(_ADOPT_SECONDS)

    def _not_adopted(self, error: Exception) -> None:
        lost = self._parts.adoption.lost
        self._logger.warning("what a killed member had could not be adopted", lost=lost, error=str(error))

    async def _serve_when_copied(self) -> None:
        """Go from copying to serving once every key has all its copies in memory, and print that the node is ready."""
        if self._lifecycle.phase is not Phase.COPYING:
            return
        copied = jvm.java("kvwal.node.HazelcastInternals").areCopied
        if await self._workers.run(partial(copied, self._parts.instance, self._options.file.backups)):
            self._lifecycle.to(Phase.SERVING)
            self._logger.info("ready")
            sys.stdout.write(READY.format(node=self._options.node, address=self._options.address) + "\n")
            sys.stdout.flush()

    async def _leave_if_failing(self) -> None:
        """Raise if keys cannot be written here, and the other members can serve without this one: they take its keys over."""
        failed, full = self._status.failed(), self._status.full()
        now = self._clock.elapsed()
        self._full_since = min(self._full_since, now) if full else math.inf
        self._parts.statuses.failing = bool(failed or full)
        if failed and await self._parts.serving.may_leave():
            raise LogFailed(
                f"the log of {', '.join(failed)} has failed ({next(iter(failed.values()))}); this node has left, and the others"
                " serve its keys.",
                hint="Look at its disk, then start it again: it recovers every acknowledged write.",
            )
        lasts = now - self._full_since >= _FULL_SECONDS
        if full and lasts and await self._parts.serving.may_leave(at_least=self._options.file.backups + 1):
            raise StorageFull(
                f"the disk has been full for {_FULL_SECONDS:g} s ({next(iter(full.values()))}); this node has left, and the"
                " others serve its keys.",
                hint="Make room on its disk, then start it again.",
            )
