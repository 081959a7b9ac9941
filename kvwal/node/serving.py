"""Serving loop of a member: it looks after the membership, adopts killed members, and leaves if its own disk fails."""

from __future__ import annotations

import asyncio
import math
import sys
from contextlib import suppress
from functools import partial
from typing import Any

import jpype

from kvwal.errors import ClockSkew, ClusterUnreachable, KvwalError, LogFailed, StorageFull
from kvwal.node import jvm, member
from kvwal.node.adapters.live_members import AGREED, STATUSES
from kvwal.node.config import NodeOptions
from kvwal.node.health.status import NodeStatus
from kvwal.node.lifecycle import Lifecycle, Phase
from kvwal.node.parts import ServingParts
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.retries import retry_awaiting
from kvwal.ports.tasks import Workers
from kvwal.ports.wakeup import Wakeup

LOOK_SECONDS = 0.25
"""The least time between two looks at the other members."""
QUIET_SECONDS = 2.0
"""The greatest time between two looks while no member comes, goes or publishes anything, beside `LOOK_SECONDS`."""
_FULL_SECONDS = 10.0
_OFF_SECONDS = 5.0
"""How long a member's clock is off before the member leaves. A member that stood still reads older messages for a moment."""
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
        self._off_since = math.inf
        self._looked = asyncio.Event()
        self._logger = get_logger(__name__).bind(node=options.node)

    async def run(self) -> None:
        """Look after the membership until this is cancelled. `NotRecovered` once memory has lost a part; `LogFailed` or
        `StorageFull` once this member's disk has failed, `ClockSkew` once its clock is wrong, and the others can serve without
        it."""
        with Wakeup() as changed:
            watch = jvm.java("kvwal.member.ChangeWatch")(self._parts.instance, [AGREED, STATUSES], changed.path)
            try:
                while True:
                    await self._look()
                    self._looked.set()
                    await self._pause(changed)
            finally:
                watch.close()

    async def _look(self) -> None:
        member.check_whole(self._gate)
        try:
            await self._parts.serving.keep_up()
            await self._serve_when_copied()
            await self._leave_if_failing()
            await self._leave_if_clock_is_off()
        except ClusterUnreachable as error:
            self._logger.warning("the other members could not be asked", error=str(error))

    async def _pause(self, changed: Wakeup) -> None:
        """Return when another member comes, goes or publishes something, or after `QUIET_SECONDS`: an event may be lost."""
        await asyncio.sleep(LOOK_SECONDS)
        if (
            self._lifecycle.phase is Phase.SERVING
            and not self._parts.statuses.failing
            and not self._parts.serving.is_archiving
        ):
            with suppress(TimeoutError):
                async with asyncio.timeout(QUIET_SECONDS):
                    await changed.wait()

    async def adopt(self) -> None:
        """Adopt the keys of killed members until this is cancelled. While none are left, try after each look at the others:
        what there is to adopt comes with a member that goes, or from another member."""
        adoption = self._parts.adoption
        errors = (KvwalError, jpype.JException)
        while True:
            self._looked.clear()
            await retry_awaiting(adoption.step, errors, self._not_adopted, pause=_ADOPT_AGAIN_SECONDS)
            await asyncio.sleep(_ADOPT_SECONDS)
            if not adoption.partitions:
                await self._looked.wait()

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

    async def _leave_if_clock_is_off(self) -> None:
        """Raise if most members agree on another time, and can serve without this one: their clocks are right."""
        bounds, now = self._parts.clock_bounds, self._clock.elapsed()
        self._off_since = min(self._off_since, now) if bounds.is_off() else math.inf
        if now - self._off_since >= _OFF_SECONDS and await self._parts.serving.may_leave():
            skew, most = bounds.skew_seconds, self._options.file.log.max_skew_seconds
            raise ClockSkew(
                f"this machine's clock is {abs(skew):.1f} s {'behind' if skew > 0 else 'ahead of'} those of the other members,"
                f" and {most:g} s is the most; this node has left, and the others serve its keys.",
                hint="Mend its clock (NTP), and start it again.",
            )
