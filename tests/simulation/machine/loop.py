"""An event loop on which time passes only when nothing else is left to do, and blocking calls that take turns on one thread.

`asyncio` runs as it is; only `select` is another: instead of waiting it moves the clock. A call that the store would hand to
a thread becomes a greenlet: wherever it touches a disk or a bucket it may give way (`pause`), and goes on at a moment that
the seed chose. So every interleaving comes from the seed, and none from threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from greenlet import getcurrent, greenlet


class Stuck(Exception):
    """Somebody waits, and nothing is scheduled that could ever wake them."""


class Dead(BaseException):
    """Raised in the call that a process was in when it was killed. Nothing it still tries has any effect."""


class Job:
    """A blocking call under way. `future` gets its result; a killed one never gives any."""

    def __init__(self, loop: Loop, call: Callable[[], Any], context: Context, delay: float) -> None:
        self.future: asyncio.Future[Any] = loop.create_future()
        self.killed = False
        self._loop = loop
        self._call = call
        self._wakers: list[Callable[[], None]] = []
        self._greenlet = _JobGreenlet(self._run, loop.hub)
        self._greenlet.job = self
        self._greenlet.gr_context = context
        loop.call_later(delay, self.resume)

    @property
    def over(self) -> bool:
        return self._greenlet.dead

    def resume(self) -> None:
        if not self.over:
            self._greenlet.switch()

    def resume_soon(self) -> None:
        """Resume it at the loop's next turn."""
        self._loop.call_soon(self.resume)

    def switch_away(self) -> None:
        """Stop here until something resumes it. For the job itself."""
        self._loop.hub.switch()

    def kill(self) -> None:
        """End it where it stands, as a kill does: what it holds is let go of, but no call has any effect any more."""
        self.killed = True
        if not self.over:
            with suppress(Dead):  # one that has not begun passes it on
                self._greenlet.throw(Dead)
        self.future.cancel()
        self._wake()

    def when_over(self, wake: Callable[[], None]) -> None:
        self._wakers.append(wake)

    def _run(self) -> None:
        try:
            result = self._call()
        except Dead:
            self.killed = True
            self.future.cancel()
        except BaseException as error:
            if not self.future.done():
                self.future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            if not self.future.done():
                self.future.set_result(result)
        self._wake()

    def _wake(self) -> None:
        wakers, self._wakers = self._wakers, []
        for wake in wakers:
            self._loop.call_soon(wake)


class _JobGreenlet(greenlet):
    job: Job


class Loop(asyncio.BaseEventLoop):
    """`now` are the seconds that have passed. `start_job` is asked how a call begins that would go to a thread, and `begin_turn`
    is called before each turn.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.hub = getcurrent()
        self.start_job: Callable[[Callable[[], Any], Context], Job] = lambda call, context: Job(
            self, call, context, 0.0
        )
        self.begin_turn: Callable[[], None] = lambda: None
        self._selector = self
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None) -> list[Any]:
        """What a selector does: nothing ever happens by itself, so the time is over at once."""
        self.begin_turn()
        if self._ready:  # perhaps it has just made some work
            return []
        if timeout is None:
            raise Stuck("everybody waits, and nothing is scheduled")
        self.now += timeout
        return []

    def _process_events(self, events: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps in `select`."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        return self.start_job(partial(func, *args), copy_context()).future


def current_job() -> Job | None:
    """The job that is running, None on the event loop itself and on a thread of somebody's library."""
    here = getcurrent()
    return here.job if isinstance(here, _JobGreenlet) else None


def pause(loop: Loop, delay: float) -> None:
    """Let others go on for `delay` seconds. On the event loop itself nobody can: a commit there holds up everything."""
    job = current_job()
    if job is not None:
        loop.call_later(delay, job.resume)
        loop.hub.switch()


def wait_for(loop: Loop, job: Job) -> None:
    """Wait, inside a job, until another one is over."""
    waiting = current_job()
    assert waiting is not None, "only a blocking call can wait for another"
    if not job.over:
        job.when_over(waiting.resume)
        loop.hub.switch()
