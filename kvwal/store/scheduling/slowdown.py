"""Write throttling of one log (RocksDB: delayed writes), by the share that `Backpressure` computes.

Without back-pressure it costs nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from kvwal.errors import KvwalError
from kvwal.log.log import Log
from kvwal.ports.boundary import contain_awaiting, logged, raised_to_awaiter, start_task
from kvwal.store.scheduling.backpressure import Backpressure

PERIOD_SECONDS = 0.1
_not_slowed = logged("the writers of a log could not be slowed, which is a bug; they go on at full speed")


class Slowdown:
    """Throttles the writers of a log: in each period of `PERIOD_SECONDS`, the log's writer sleeps for `share` of the period,
    between two commit groups.

    The writer waits in a command of the ring, so writes wait in the ring as they do behind a rotation, and producers wait for the
    ring. Used on the store's event loop.
    """

    def __init__(self, log: Log, checkpoint_bytes: int) -> None:
        self._log = log
        self._backpressure = Backpressure(checkpoint_bytes)
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        self.seconds = 0.0

    @property
    def share(self) -> float:
        """The share of the time that writers wait now."""
        return self._backpressure.share

    def note(self, behind: int, *, works: bool) -> None:
        """Update the share (see `Backpressure.note`), and start throttling if it is above 0."""
        share = self._backpressure.note(behind, works=works)
        if share and self._task is None and not self._ended:
            self._task = start_task(contain_awaiting(self._slow, _not_slowed), raised_to_awaiter)

    async def end(self) -> None:
        """Slow the writers no longer."""
        self._ended = True
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _slow(self) -> None:
        try:
            with suppress(KvwalError):  # the log was closed, or has failed: each write gets that error itself
                await self._slow_while_behind()
        finally:
            self._task = None

    async def _slow_while_behind(self) -> None:
        while (share := self.share) and not self._ended:
            await self._log.ring.command(partial(asyncio.sleep, share * PERIOD_SECONDS))
            self.seconds += share * PERIOD_SECONDS
            await asyncio.sleep((1 - share) * PERIOD_SECONDS)
