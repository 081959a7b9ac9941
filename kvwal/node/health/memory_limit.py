"""Memory limit of a member: puts are refused before the members that stay when one goes could not hold all entries.

Every member publishes what the entries take that it owns. So each knows what the cluster holds, also while partitions move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import jpype

from kvwal.cluster.bootstrap import Status
from kvwal.errors import ClusterUnreachable
from kvwal.node.adapters.status_exchange import StatusExchange
from kvwal.node.config import LEAST_HEAP, NodeFile, heap_bytes
from kvwal.node.jvm import java
from kvwal.ports.boundary import contain_awaiting
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers

NEARLY_FULL = 0.8
"""From this ratio on /readyz and an alert say it."""
_USABLE = 0.7
"""Of the heap, without what a member needs to live: garbage collection needs the rest."""
_STEPS = 256
"""A member publishes what it owns in such parts of its room, so that it does not publish at each look. Its room is full when it
may take less than one part: else a put larger than what is left would wait for ever."""
_LOOK_SECONDS = 0.25
_SLOW_SECONDS = 1.0
_BUSY = 0.5
"""While the JVM uses less than this part of the room, garbage included, and clients have taken less than half of what they may,
a look each `_SLOW_SECONDS` is enough."""
_AGAIN = 0.95
"""Puts that were refused are taken again below this ratio."""
_HINT = "Delete entries, give each node a larger heap, or add a member."


def room_of(heap: int) -> int:
    """What maps may take of a heap, in bytes."""
    return max(1, int((heap - LEAST_HEAP) * _USABLE))


class Share(NamedTuple):
    """How much of its room each member would take if one of them went, and how many bytes of entries a member may take until it
    would be all of its room."""

    ratio: float
    allowed: int


def share_after_a_loss(statuses: Sequence[Status], backups: int) -> Share:
    """The share of a member when the others hold all entries and their copies. The smallest room counts.

    A member alone holds everything itself. Nothing is taken while no member says what room it has.
    """
    rooms = [status.room_bytes for status in statuses if status.room_bytes]
    if not rooms:
        return Share(0.0, 0)
    left = max(1, len(statuses) - 1)
    copies = min(backups + 1, left)
    most = min(rooms) * left // copies
    data = sum(status.data_bytes for status in statuses)
    return Share(data / most, max(0, most - data) // len(statuses))


class MemoryLimit:
    """The limit of one member. Used on the node's event loop. `ratio` is that of the `Share` at the last look."""

    def __init__(self, instance: Any, statuses: StatusExchange, file: NodeFile, clock: Clock, workers: Workers) -> None:
        """`instance` is Hazelcast's."""
        self.ratio = 0.0
        self._instance = instance
        self._statuses = statuses
        self._backups = file.backups
        self._heap = file.heap
        self._room = room_of(heap_bytes(file.heap))
        self._step = max(1, self._room // _STEPS)
        self._clock = clock
        self._workers = workers
        self._due = 0.0
        self._refuses = False
        self._limit = java("kvwal.node.MemoryLimit").of(instance)
        self._usage = java("kvwal.member.HeapUsage")
        self._logger = get_logger(__name__)

    async def run(self) -> None:
        """Look every moment until this is cancelled. A look that fails is not the last one."""
        while True:
            await contain_awaiting(self._look, self._failed)
            await asyncio.sleep(_LOOK_SECONDS)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, ClusterUnreachable | jpype.JException):
            self._logger.debug("the room of memory could not be told", error=str(error))
        else:
            self._logger.error("the room of memory could not be told", exc_info=error)

    async def _look(self) -> None:
        """Measure, publish, and say how much more clients may put until the next look."""
        now = self._clock.elapsed()
        if now < self._due and not self._is_busy():
            return
        owned, held = await self._workers.run(self._measure)
        self._statuses.data_bytes, self._statuses.room_bytes = -(-owned // self._step) * self._step, self._room
        own = self._statuses.own()
        others = [status for status in self._statuses.last if status.name != own.name]
        share = share_after_a_loss([*others, own], self._backups)
        full = 1.0 if share.allowed < self._step else 0.0
        self.ratio = max(share.ratio, held / self._room, full)
        self._due = now + _SLOW_SECONDS
        self._note(self.ratio >= (_AGAIN if self._refuses else 1))
        self._limit.allow(0 if self._refuses else share.allowed, self.told(), _HINT)
        await self._statuses.publish()  # may wait for a silent member, for longer than the next look can

    def _is_busy(self) -> bool:
        return bool(self._limit.isNear(int(_BUSY * self._room)))

    def told(self) -> str:
        """The sentence of /readyz and of refusals."""
        return (
            f"entries take {self.ratio:.0%} of what the members have room for if one of them goes (heap = {self._heap!r});"
            " at 100% puts are refused"
        )

    def _measure(self) -> tuple[int, int]:
        owned, held = self._usage.total(self._instance)
        return int(owned), int(held)

    def _note(self, refuses: bool) -> None:
        if refuses and not self._refuses:
            self._logger.warning("memory is full: puts are refused", ratio=round(self.ratio, 3))
        elif self._refuses and not refuses:
            self._logger.info("memory has room again: puts are taken", ratio=round(self.ratio, 3))
        self._refuses = refuses
