"""What a simulated store has instead of locks and helper threads: a thread that would wait for another one gives way to it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import cast

from tests.simulation.history import Violation
from tests.simulation.machine.loop import Job, Loop, current_job
from tests.simulation.machine.process import PROCESS


class Lock:
    """Stands for `kvwal.ports.locks.Lock`. Where a thread may be interrupted before it gets the lock, others may go first."""

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: deque[Job] = deque()

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock. A call that would wait on the loop itself, where nobody could ever release it, is a violation."""
        process = PROCESS.get()
        if process is not None:
            process.world.give_way()
            process.check_alive()
        while self._is_held:
            if not blocking:
                return False
            job = current_job()
            if job is None:
                raise Violation("the loop waits for a lock that a thread holds")
            self._waiting.append(job)
            job.switch_away()
            if process is not None:
                process.check_alive()
        self._is_held = True
        return True

    def release(self) -> None:
        """Release it; all that wait look again, in their order."""
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False
        while self._waiting:
            self._waiting.popleft().resume_soon()

    def locked(self) -> bool:
        """Whether somebody holds it."""
        return self._is_held


class Helper:
    """Stands for `kvwal.ports.tasks.Helper`: calls of one thread, one after the other."""

    def __init__(self, name: str) -> None:
        self._calls: deque[tuple[Callable[[], None], Context]] = deque()
        self._is_running = False
        self._is_closed = False

    def begin(self, call: Callable[[], None]) -> bool:
        """See `Helper.begin`."""
        if not self._is_closed:
            self._calls.append((call, copy_context()))
            self._run_next()
        return not self._is_closed

    def close(self) -> None:
        """No more calls begin. Those that were begun end by themselves."""
        self._is_closed = True

    def _run_next(self) -> None:
        if self._is_running or not self._calls:
            return
        self._is_running = True
        call, context = self._calls.popleft()
        loop = cast("Loop", asyncio.get_running_loop())
        loop.start_job(call, context).future.add_done_callback(self._ended)

    def _ended(self, answer: asyncio.Future[None]) -> None:
        self._is_running = False
        if not answer.cancelled() and (error := answer.exception()) is not None:
            raise error
        self._run_next()


def no_thread(name: str) -> Helper:
    """Stands for a `Helper` where the system has no thread for it: its work is done by the caller."""
    raise RuntimeError("can't start new thread")
