"""Runner of SQL for the console: a few query processes, each with one statement at a time, and an end to each statement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from kvwal.console.bodies import Refused
from kvwal.console.queries.question import Answered, Form, Place, Question, decode_answer, encode
from kvwal.ports.boundary import raised_to_awaiter, start_task
from kvwal.ports.processes import Child, NotStarted
from kvwal.ports.tasks import ThreadWorkers

AT_ONCE = 2
"""Statements that run at a time. Others wait."""
MOST_SECONDS = 300
MOST_ROWS = 100_000
_WAIT_SECONDS = 10.0
_LOOK_SECONDS = 0.25
"""How often it is looked whether the caller is still there."""
_BUSY = f"{AT_ONCE} statements run already. Ask again in some seconds."
_ENDED = (
    "The process of this statement ended early: most likely it needed too much memory. Select fewer rows or shorter values."
    " A trace of Python in the console's log is a bug: report it."
)
_MODULE = "kvwal.console.queries.child"


class Limits(NamedTuple):
    """Limits of one statement: seconds, and rows of the answer."""

    seconds: int = 30
    rows: int = 10_000


def query_process() -> Child:
    """Start a query process."""
    return Child(_MODULE)


class Queries:
    """The statements of a console. `ask` is called on the event loop."""

    def __init__(self, place: Place, start: Callable[[], Child] = query_process) -> None:
        """No process is started before the first statement."""
        self._place = place
        self._start = start
        self._workers = ThreadWorkers("kvwal-queries", AT_ONCE)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._free: list[Child] = []
        self._busy: list[Child] = []

    async def ask(
        self, sql: str, form: Form, limits: Limits, at: int | None, is_gone: Callable[[], Awaitable[bool]]
    ) -> Answered:
        """The answer to a statement. Raises `Refused` for one that takes too long, needs too much memory, or is no SQL to read.

        Its process is ended when the time is over, and when `is_gone` says that the caller has gone.
        """
        question = Question(self._place, sql, form, limits.rows, limits.seconds, at)
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._slots.acquire()
        except TimeoutError:
            raise Refused(503, _BUSY) from None
        try:
            found = decode_answer(await self._answer(encode(question), limits, is_gone))
        finally:
            self._slots.release()
        if found.error:
            raise Refused(found.status, found.error)
        return found

    async def _answer(self, line: bytes, limits: Limits, is_gone: Callable[[], Awaitable[bool]]) -> bytes:
        child = self._free.pop() if self._free else await self._workers.run(self._start)
        self._busy.append(child)
        work = start_task(self._workers.run(partial(child.ask, line)), raised_to_awaiter)
        try:
            why = await _ended_early(work, limits, is_gone)
            if why is not None:
                child.kill()
            answer = await work
        except (EOFError, NotStarted) as error:
            await self._workers.run(child.close)
            raise why if why is not None else Refused(413, _ENDED) from error
        finally:
            self._busy.remove(child)
            if not work.done():  # the server ends
                child.kill()
        self._free.append(child)
        return answer

    def close(self) -> None:
        """End all processes. No statement is asked any more."""
        for child in self._busy:
            child.kill()
        for child in self._free:
            child.close()
        self._workers.close()


async def _ended_early(
    work: asyncio.Task[bytes], limits: Limits, is_gone: Callable[[], Awaitable[bool]]
) -> Refused | None:
    """Wait for the answer. The reason why the statement is to be ended before it has one."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limits.seconds
    while True:
        done, _ = await asyncio.wait({work}, timeout=min(_LOOK_SECONDS, max(0.0, end - loop.time())))
        if done:
            return None
        if loop.time() >= end:
            return Refused(
                408,
                f"The statement took longer than {limits.seconds} s and was ended. Select less, or ask with `kvwal query`.",
            )
        if await is_gone():
            return Refused(499, "The caller has gone.")
