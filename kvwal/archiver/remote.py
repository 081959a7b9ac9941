"""The parent's end of the archiver process: started when first needed, started again when it died."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from kvwal.archiver.jobs import Answer, Answers, Archive, Failed, Job, Several, decode_answer, encode
from kvwal.errors import ArchiveError, KvwalError
from kvwal.ports.processes import Child
from kvwal.ports.tasks import Workers

MODULE = "kvwal.archiver"
SMALL_BYTES = 1 << 20
"""Of one log: what is read and built at a time stays small, though several are."""
AT_ONCE = 32
T = TypeVar("T", bound=Answer)


def start_child() -> Child:
    """The archiver's process."""
    return Child(MODULE)


class Archiver:
    """One job at a time, or several small ones of archiving that wait at the same time. `start` makes the child; `workers` is
    where waiting for it happens.
    """

    def __init__(self, workers: Workers, start: Callable[[], Child] = start_child) -> None:
        self._workers = workers
        self._start = start
        self._child: Child | None = None
        self._turn = asyncio.Lock()
        self._small: deque[tuple[Archive, asyncio.Future[Answer]]] = deque()

    async def do(self, job: Job, expected: type[T]) -> T:
        """Have a job done. Raises what the job raised; `ArchiveError` if the process died over it."""
        if isinstance(job, Archive) and sum(segment.size for segment in job.segments) <= SMALL_BYTES:
            answer = await self._do_small(job)
        else:
            answer = await self._do_alone(job)
        if isinstance(answer, Failed):
            raise answer.exception()
        if not isinstance(answer, expected):
            raise ArchiveError(f"the archiver answered {type(answer).__name__} to {type(job).__name__}.")
        return answer

    async def _do_alone(self, job: Job) -> Answer:
        async with self._turn:
            return await self._workers.run(lambda: self._ask(job))

    async def _do_small(self, job: Archive) -> Answer:
        """The first that gets the turn takes others with it that wait."""
        mine: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        waiting = (job, mine)
        self._small.append(waiting)
        try:
            async with self._turn:
                if not mine.done():
                    await self._do_batch()
        finally:
            if waiting in self._small:
                self._small.remove(waiting)
        return await mine

    async def _do_batch(self) -> None:
        batch = [self._small.popleft() for _ in range(min(AT_ONCE, len(self._small)))]
        jobs = [job for job, _ in batch]
        try:
            found = await self._workers.run(lambda: self._ask(jobs[0] if len(jobs) == 1 else Several(jobs)))
            answers = found.answers if isinstance(found, Answers) else [found] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)
        except KvwalError as error:
            for _, future in batch:
                future.set_result(Failed(type(error).__name__, error.what, error.hint))
        finally:  # this task was cancelled: the others do theirs again
            self._small.extendleft(reversed([each for each in batch if not each[1].done()]))

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
