"""The door to threads."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from kvwal.errors import StoreClosed, WrongLoop
from kvwal.ports.boundary import (
    OnError,
    begin_on,
    call_on,
    contain,
    logged,
    serve_until_stopped,
    settle,
    start_thread,
    when_done,
)

T = TypeVar("T")

Lock = threading.Lock


this_thread = threading.get_ident
"""A number that no other running thread has."""


class Workers(Protocol):
    """Where calls that block (a write, an fdatasync) run, so that the event loop does not."""

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` elsewhere and return what it returns.

        It is not cancelled with the task that waits for it: that task's cancellation waits until the call has ended.
        """
        ...

    async def commit(self, call: Callable[[], T]) -> T:
        """As `run`, for the write of a group: it may be done right here, if nobody else waits for this thread."""
        ...

    def close(self) -> None:
        """Wait for what runs, and take no more."""
        ...


class ThreadWorkers:
    """A pool of threads. With `own_loop` the event loop belongs to kvwal alone, so a commit need not leave it.

    The way to another thread and back costs as much as an fdatasync of a fast disk. It pays only where several logs are
    open, which then commit at the same time: `logs` counts them.
    """

    def __init__(self, name: str, threads: int = 4, *, own_loop: bool = False) -> None:
        self._pool = _Pool(name, threads)
        self._own_loop = own_loop
        self.logs = 0

    async def run(self, call: Callable[[], T]) -> T:
        """See `Workers.run`."""
        answer = asyncio.wrap_future(self._pool.submit(call))
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            # The task is cancelled, the call is not: what it uses (a file, a lock) must not be let go of under it.
            await asyncio.wait([answer])
            answer.exception()  # nobody is there to hear of it
            raise

    async def commit(self, call: Callable[[], T]) -> T:
        """See `Workers.commit`."""
        if self._own_loop and self.logs == 1:
            return call()
        return await self.run(call)

    def close(self) -> None:
        """See `Workers.close`."""
        self._pool.close()


def side_by_side(calls: Sequence[Callable[[], T]], *, threads: int) -> list[T]:
    """Make the calls on so many threads; what they return, in their order. Raises what one of them raises."""
    pool = _Pool("kvwal-beside", min(threads, len(calls)))
    try:
        return [future.result() for future in [pool.submit(call) for call in calls]]
    finally:
        pool.close()


class _Pool:
    """Daemon threads, started as they are needed.

    The pool of the standard library takes nothing more once the main thread has ended, though other threads of the program
    still write, and it holds up the end of the interpreter for whatever runs in it.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._lock = Lock()
        self._closed = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Have a thread call it. `StoreClosed` after `close`."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._closed:
                raise StoreClosed("the store was closed meanwhile.", hint="Open it again.")
            self._calls.put(partial(settle, future, call))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
                name = f"{self._name}_{len(self._threads)}"
                self._threads.append(start_thread(name, partial(_work, self._calls, self._idle), _pool_failed))
        return future

    def close(self) -> None:
        """Wait for what was submitted, and take no more."""
        with self._lock:
            self._closed = True
            self._end()
        for thread in self._threads:
            thread.join()

    def _end(self) -> None:
        for _ in self._threads:
            self._calls.put(None)

    def __del__(self) -> None:
        self._end()


def _work(calls: SimpleQueue[Callable[[], None] | None], idle: threading.Semaphore) -> None:
    while (call := calls.get()) is not None:
        call()
        del call
        idle.release()


_pool_failed = logged("a thread of kvwal's pool has stopped, which is a bug; the others go on")


class LoopEnded(Exception):
    """The event loop of a `LoopThread` has ended, or ended before the coroutine did."""


class LoopThread:
    """An event loop on a thread of its own: how synchronous callers reach the asyncio core."""

    def __init__(self, name: str, broken: OnError) -> None:
        """`broken` gets the error of a loop that cannot go on, on its thread, after every task was closed."""
        self._broken = broken
        self._begun: set[Future[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._lock = Lock()
        self._ended = False
        self._thread = start_thread(name, partial(_serve, self._loop), self._break)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there; `wait` gives its result. `LoopEnded`; `WrongLoop` on that very thread."""
        if this_thread() == self._thread.ident:
            work.close()
            raise WrongLoop(
                "this is the thread that writes the log (a callback of a future runs here), and the call would wait for it.",
                hint="Call it from a thread of your own.",
            )
        return self._begin(work)

    def wait(self, future: Future[T]) -> T:
        """The result of what `begin` began. `LoopEnded` if the loop ended first."""
        try:
            return future.result()
        except CancelledError:
            raise LoopEnded from None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for its result. Raises what `begin` and `wait` raise."""
        return self.wait(self.begin(work))

    def close(self) -> None:
        """End the loop, and what still runs there, and wait for its thread. Again is no error."""
        self._end()
        self._thread.join()

    def end_after(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run a last coroutine there, then end the loop. Waits for nothing, so that a finalizer may call it.

        When the interpreter ends, the thread does not run any more, and nothing is done.
        """
        if sys.is_finalizing():
            return
        try:
            when_done(self._begin(work()), lambda _: self._end(), _loop_failed)
        except LoopEnded:
            return

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if self._ended:
                work.close()
                raise LoopEnded
            future = begin_on(self._loop, work)
            self._begun.add(future)
        when_done(future, self._begun.discard, _loop_failed)
        return future

    def _end(self) -> None:
        with self._lock:
            if not self._ended:
                self._ended = True
                call_on(self._loop, self._loop.stop, _loop_failed)

    def _break(self, error: BaseException) -> None:
        """The loop cannot go on, say because the program closed its file descriptors: all that wait for it are answered."""
        with self._lock:
            self._ended = True
        _loop_failed(error)
        for task in asyncio.all_tasks(self._loop):
            contain(task.get_coro().close, _loop_failed)
        contain(partial(self._broken, error), _loop_failed)
        for future in list(self._begun):
            if not future.done():
                future.set_exception(LoopEnded())
        contain(self._loop.close, _loop_failed)


_loop_failed = logged("an error reached the thread of kvwal's event loop")


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, then cancel what still runs on it: whoever waits for that must not wait for ever."""
    serve_until_stopped(loop, _loop_failed)
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left))
    loop.close()
