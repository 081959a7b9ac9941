"""Request loop: takes requests from HistoryRequests.java one after the other, and answers each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import jpype

from kvwal.errors import KvwalError
from kvwal.ports.boundary import logged, start_task, when_done
from kvwal.ports.tasks import Workers

A_BUG = "this node has a bug"
"""What a member says to a question that it does not know, too: it is of an earlier version then."""
Answer = Callable[[bytes], Awaitable[bytes]]
_not_answered = logged("a question was refused because of a bug")


class RequestLoop:
    """Used on the node's event loop."""

    def __init__(self, asked: Any, takers: Workers, answer: Answer) -> None:
        """`asked` is HistoryRequests.java; a thread of `takers` waits for its requests. `answer` turns the bytes of a
        request into those of its answer. If it raises an error of kvwal, the request is refused with that error."""
        self._asked = asked
        self._takers = takers
        self._find = answer
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Take requests and answer them, until their queue is closed."""
        try:
            while (question := await self._takers.run(self._asked.take)) is not None:
                task = start_task(self._answer(question), _not_answered)
                self._tasks.add(task)
                when_done(task, self._tasks.discard, _not_answered)
        finally:
            for task in self._tasks:
                task.cancel()
            self._takers.close()

    async def _answer(self, asked: Any) -> None:
        try:
            asked.answer(await self._find(bytes(asked.text())))
        except asyncio.CancelledError:
            asked.refuse("ClusterUnreachable: this node is leaving. Ask another one.")
            raise
        except (KvwalError, OSError, jpype.JException) as error:
            asked.refuse(f"{type(error).__name__}: {error}")
        finally:
            asked.refuse(f"KvwalError: {A_BUG}, and its log says which.")  # unless it has its answer
