"""The parent's end of the archiver process, which is started at the first job and again after it died."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from kvwal.archiver.jobs import Answer, Archive, ArchiverJob, Failed, Several, SeveralAnswers, decode_answer, encode
from kvwal.errors import ArchiveError, KvwalError
from kvwal.ports.children.interpreter import NoInterpreter, environment
from kvwal.ports.processes import Child, NotStarted
from kvwal.ports.tasks import Workers
from kvwal_archive.faults import AccessRefused, NoValidCredentials

MODULE = "kvwal.archiver"
SMALL_BYTES = 1 << 20
"""Limit of a small job, which may run together with others: so the data read and built at a time stays small."""
AT_ONCE = 32
_REFUSED = (AccessRefused.__name__, NoValidCredentials.__name__)
T = TypeVar("T", bound=Answer)


def start_child() -> Child:
    """Start the archiver's process."""
    return Child(MODULE)


def _is_refused(answer: Answer) -> bool:
    """Whether the archive refused the credentials of a job."""
    answers = answer.answers if isinstance(answer, SeveralAnswers) else [answer]
    return any(isinstance(one, Failed) and one.error in _REFUSED for one in answers)


class Archiver:
    """The archiver process as its parent sees it. It does one job at a time, or several small archive jobs that wait together.

    `start` starts the child process. `workers` wait for its answers.
    """

    def __init__(self, workers: Workers, start: Callable[[], Child] = start_child) -> None:
        self._workers = workers
        self._start = start
        self._child: Child | None = None
        self._environment: dict[str, str] = {}
        self._turn = asyncio.Lock()
        self._small: deque[tuple[Archive, asyncio.Future[Answer]]] = deque()

    async def do(self, job: ArchiverJob, expected: type[T]) -> T:
        """Send a job and return its answer. Raises the error of the job; `ArchiveError` if the process died during it."""
        if isinstance(job, Archive) and sum(segment.size for segment in job.segments) <= SMALL_BYTES:
            answer = await self._do_small(job)
        else:
            answer = await self._do_alone(job)
        if isinstance(answer, Failed):
            raise answer.exception()
        if not isinstance(answer, expected):
            raise ArchiveError(f"the archiver answered {type(answer).__name__} to {type(job).__name__}.")
        return answer

    async def _do_alone(self, job: ArchiverJob) -> Answer:
        async with self._turn:
            return await self._workers.run(lambda: self._ask(job))

    async def _do_small(self, job: Archive) -> Answer:
        """Do a small job. The first caller that gets the turn sends the waiting jobs of the others with its own."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        waiting = (job, answer)
        self._small.append(waiting)
        try:
            async with self._turn:
                if not answer.done():
                    await self._do_batch()
        finally:
            if waiting in self._small:
                self._small.remove(waiting)
        return await answer

    async def _do_batch(self) -> None:
        batch = [self._small.popleft() for _ in range(min(AT_ONCE, len(self._small)))]
        jobs = [job for job, _ in batch]
        try:
            reply = await self._workers.run(lambda: self._ask(jobs[0] if len(jobs) == 1 else Several(jobs)))
            answers = reply.answers if isinstance(reply, SeveralAnswers) else [reply] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)
        except KvwalError as error:
            for _, future in batch:
                future.set_result(Failed(type(error).__name__, error.what, error.hint))
        finally:  # if this task was cancelled, the other callers send their jobs again
            self._small.extendleft(reversed([waiting for waiting in batch if not waiting[1].done()]))

    def _ask(self, job: ArchiverJob) -> Answer:
        answer = self._ask_child(job)
        if _is_refused(answer) and self._environment != environment():
            self.let_go()  # the keys in the environment may have been renewed, and the process has the old ones
            answer = self._ask_child(job)
        return answer

    def _ask_child(self, job: ArchiverJob) -> Answer:
        if self._child is None:
            self._environment = environment()
            self._child = self._start_child()
        try:
            answer: Answer = decode_answer(self._child.ask(encode(job)))
            return answer
        except NotStarted as error:
            self.let_go()
            raise ArchiveError(
                f"the archiver process {error}.",
                hint="Nothing is lost, and it is tried again. What the process wrote to standard error says why it ended.",
            ) from error
        except EOFError as error:
            self.let_go()
            raise ArchiveError(
                f"the archiver process died while it did a {type(job).__name__.lower()}: {error}.",
                hint="Nothing is lost: the job is done again by a new process.",
            ) from error

    def _start_child(self) -> Child:
        try:
            return self._start()
        except NoInterpreter as error:
            raise ArchiveError(
                f"the archiver process cannot be started: {error.what}",
                hint=f"{error.hint} Without the archiver nothing is archived or checkpointed.",
            ) from error
        except OSError as error:
            raise ArchiveError(
                f"the archiver process cannot be started ({error.strerror}).",
                hint="Nothing is lost, and it is tried again; see to the limits of this machine (ulimit -a).",
            ) from error

    async def close(self) -> None:
        """Wait for the job that is under way, and end the process."""
        async with self._turn:
            await self._workers.run(self.let_go)

    def let_go(self) -> None:
        """End the process; no job is under way. Blocks."""
        if self._child is not None:
            self._child.close()
            self._child = None
