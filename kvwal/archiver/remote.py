"""The parent's end of the archiver process: started when first needed, started again when it died."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from kvwal.archiver.jobs import Answer, Failed, Job, decode_answer, encode
from kvwal.errors import ArchiveError
from kvwal.ports.processes import Child
from kvwal.ports.tasks import Workers

MODULE = "kvwal.archiver"
T = TypeVar("T", bound=Answer)


def start_child() -> Child:
    """The archiver's process."""
    return Child(MODULE)


class Archiver:
    """One job at a time. `start` makes the child; `workers` is where waiting for it happens."""

    def __init__(self, workers: Workers, start: Callable[[], Child] = start_child) -> None:
        self._workers = workers
        self._start = start
        self._child: Child | None = None
        self._turn = asyncio.Lock()

    async def do(self, job: Job, expected: type[T]) -> T:
        """Have a job done. Raises what the job raised; `ArchiveError` if the process died over it."""
        async with self._turn:
            answer = await self._workers.run(lambda: self._ask(job))
        if isinstance(answer, Failed):
            raise answer.exception()
        if not isinstance(answer, expected):
            raise ArchiveError(f"the archiver answered {type(answer).__name__} to {type(job).__name__}.")
        return answer

    def _ask(self, job: Job) -> Answer:
        if self._child is None:
            self._child = self._started()
        try:
            answer: Answer = decode_answer(self._child.ask(encode(job)))
            return answer
        except EOFError as error:
            self._child.close()
            self._child = None
            raise ArchiveError(
                f"the archiver process died while it did a {type(job).__name__.lower()}: {error}.",
                hint="Nothing is lost: the job is done again by a new process.",
            ) from error

    def _started(self) -> Child:
        try:
            return self._start()
        except OSError as error:
            raise ArchiveError(
                f"the archiver process cannot be started ({error.strerror}).",
                hint="Nothing is lost, and it is tried again; see to the limits of this machine (ulimit -a).",
            ) from error

    async def close(self) -> None:
        """Let the job under way end, and the process with it."""
        async with self._turn:
            await self._workers.run(self.let_go)

    def let_go(self) -> None:
        """End the process, whose job has ended. Blocks."""
        if self._child is not None:
            self._child.close()
            self._child = None
