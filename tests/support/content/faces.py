"""One set of tests for both faces of contents: the synchronous ones with the methods of the asynchronous ones."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from tests.support.queue.faces import OnThreads, each

PLAIN = {"name", "timestamp", "tell", "seek"}
OF_BLOCK = {"copy", "delete", "__setitem__"}
"""In a block these methods write nothing, and are no coroutines."""


class ContentsOnThreads(OnThreads):
    """A synchronous store, business, contents, block or file, for tests that are written for the asynchronous ones."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if name in PLAIN or (self._block and name in OF_BLOCK):
            return found
        if name in ("content", "map", "queue", "business", "create", "open"):
            return lambda *given, **named: ContentsOnThreads(found(*given, **named), block=self._block)
        if name == "list":
            return lambda *given: each(partial(found, *given))
        if name == "at":
            return partial(self._then, found)
        return partial(asyncio.to_thread, found)

    def transaction(self) -> ContentsOnThreads:
        """A block of the other kind, for `async with`."""
        return ContentsOnThreads(self._of.transaction(), block=True)

    async def contains(self, name: object) -> bool:
        """`in`, which is a coroutine on the asynchronous side."""
        return name in self._of

    async def _then(self, at: Any, moment: Any) -> ContentsOnThreads:
        return ContentsOnThreads(await asyncio.to_thread(at, moment))


async def names(contents: Any, prefix: str = "") -> list[str]:
    """The names of contents, in their order."""
    return [content.name async for content in contents.list(prefix)]
