"""News of the queues of a business: requests that wait for an item, or for room, go on after the next change."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

_WAIT_SECONDS = 0.5
"""The longest that a request waits: it keeps a thread of the member. The client asks again."""
_WAITING = 16
"""Requests of a business that may wait at once. Further ones are answered at once."""


class News:
    """The news of one business. Used on the node's event loop. `waiting` counts the requests that wait, by structure."""

    def __init__(self) -> None:
        self.waiting: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def tell(self) -> None:
        """Let waiting requests go on: there may be an item, or room."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, structure: str, seconds: float) -> None:
        """Return after the next change, or after some time; at once if many requests wait."""
        if self.waiting.total() >= _WAITING:
            return
        self.waiting[structure] += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(seconds, _WAIT_SECONDS)):
                    await self._changed.wait()
        finally:
            self.waiting[structure] -= 1
            if not self.waiting[structure]:
                del self.waiting[structure]
