"""Thread port: worker threads for blocking calls, and an event loop on its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar, cast

from kvwal.errors import StoreClosed, WrongLoop
from kvwal.ports.boundary import (
    OnError,
    Settable,
    begin_on,
    call_on,
    contain,
    logged,
    serve_until_stopped,
    settle,
    start_thread,
    when_done,
)
from kvwal.ports.clock import SYSTEM
from kvwal.ports.locks import interpreter_ends

T = TypeVar("T")

Lock = threading.Lock


this_thread = threading.get_ident
"""The id of the current thread."""


class Workers(Protocol):
    """Executor of blocking calls (a write, an fdatasync), so that they do not block the event loop."""

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` on another thread and return its result.

        The call cannot be cancelled: if the waiting task is cancelled, its cancellation waits until the call has ended.
        """
        ...

    async def commit(self, call: Callable[[], T]) -> T:
        """As `run`, for the write of a group. It may run on the loop's thread if no other log needs the loop."""
        ...

    def begin(self, call: Callable[[], None]) -> bool:
        """Have another thread make a call that raises nothing. Does not wait. False if no thread is there for it.

        It takes no lock of Python's, so a signal handler may interrupt it, and may call it.
        """
        ...

    def close(self) -> None:
        """Wait for running calls, and accept no more."""
        ...


class ThreadWorkers:
    """Workers on a thread pool. With `own_loop` the event loop is kvwal's alone, so a commit may block it.

    Switching to another thread and back costs as much as an fdatasync of a fast disk. It pays only if several logs are open and
    commit at the same time: `logs` is the number of open logs.
    """

    def __init__(self, name: str, threads: int = 4, *, own_loop: bool = False) -> None:
        self._pool = _Pool(name, threads)
        self._own_loop = own_loop
        self._helper = Helper(f"{name}-helper") if own_loop else None
        self.logs = 0

    async def run(self, call: Callable[[], T]) -> T:
        """See `Workers.run`."""
        outcome: _Outcome[T] = _Outcome()
        self._pool.start(call, outcome)
        return await outcome.wait()

    async def commit(self, call: Callable[[], T]) -> T:
        """See `Workers.commit`."""
        if self._own_loop and self.logs == 1:
            return call()
        return await self.run(call)

    def begin(self, call: Callable[[], None]) -> bool:
        """See `Workers.begin`."""
        return self._helper is not None and self._helper.begin(call)

    def close(self) -> None:
        """See `Workers.close`."""
        if self._helper is not None:
            self._helper.close()
        self._pool.close()


class _Outcome(Generic[T]):
    """The outcome of a call on another thread, for the one task that waits for it. Made on the task's loop.

    Cheaper than a future of each kind and what chains them: a group of `kvwal.aio` has one, and few puts share a group.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wakeup = self._loop.create_future()
        self._ended = False
        self._result: T | None = None
        self._error: BaseException | None = None

    def set_result(self, result: T, /) -> None:
        """See `Settable.set_result`. Called on the thread of the call."""
        self._result = result
        self._tell()

    def set_exception(self, error: BaseException, /) -> None:
        """See `Settable.set_exception`. Called on the thread of the call."""
        self._error = error
        self._tell()

    async def wait(self) -> T:
        """The result of the call, or the error that it raised. If the task is cancelled, its cancellation waits until then."""
        try:
            await self._wakeup
        except asyncio.CancelledError:
            # The task is cancelled, the call still runs: its file or lock must not be closed or released before it has ended.
            if not self._ended:
                self._wakeup = self._loop.create_future()
                await self._wakeup
            raise
        if self._error is None:
            return cast("T", self._result)
        # It refers to this frame, and to that of the caller, which has this object.
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error

    def _tell(self) -> None:
        try:
            call_on(self._loop, self._ring, _pool_failed)
        except RuntimeError:
            if not self._loop.is_closed():  # a closed loop has no task that waits
                raise

    def _ring(self) -> None:
        self._ended = True
        if not self._wakeup.done():
            self._wakeup.set_result(None)


def side_by_side(calls: Sequence[Callable[[], T]], *, threads: int) -> list[T]:
    """Make the calls on `threads` threads and return their results in order. Raises the first error of a call."""
    pool = _Pool("kvwal-beside", min(threads, len(calls)))
    try:
        return [future.result() for future in [pool.submit(call) for call in calls]]
    finally:
        pool.close()


def interruptible(call: Callable[[], T], interrupt: Callable[[], None]) -> T:
    """The result of a call that looks at no signals, made on another thread. Ctrl-C calls `interrupt`, which ends the call."""
    pool = _Pool("kvwal-call", 1)
    future = pool.submit(call)
    try:
        return future.result()
    finally:
        if not future.done():
            interrupt()
        pool.close()


class ExitExecutor(ThreadPoolExecutor):
    """A default executor for an event loop that is used while Python ends, too: the standard library's takes no call then."""

    def __init__(self, name: str, threads: int = 32) -> None:
        super().__init__(1)
        self._pool = _Pool(name, threads)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """See `concurrent.futures.Executor.submit`."""
        return self._pool.submit(partial(fn, *args, **kwargs))


class _Pool:
    """A pool of daemon threads, started on demand.

    The standard library's pool accepts no calls once the main thread has ended, although other threads of the program may still
    write, and it delays the interpreter's end until its running calls have ended.
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
        """Run `call` on a thread of the pool. `StoreClosed` after `close`; `RuntimeError` if it gets no first thread."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        self.start(call, future)
        return future

    def start(self, call: Callable[[], T], outcome: Settable[T]) -> None:
        """As `submit`, with an outcome of the caller's own."""
        with self._lock:
            if self._closed:
                raise StoreClosed("the store was closed meanwhile.", hint="Open it again.")
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
                self._grow()
            self._calls.put(partial(settle, outcome, call))

    def _grow(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        try:
            self._threads.append(start_thread(name, partial(_work, self._calls, self._idle), _pool_failed))
        except RuntimeError:
            # The system has no more threads, or the interpreter ends. Those that are here take the call.
            if not self._threads:
                raise

    def close(self) -> None:
        """Wait for the submitted calls, and accept no more."""
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


class Helper:
    """One daemon thread that makes calls one after the other. See `Workers.begin`.

    `RuntimeError` if the system has no thread for it, or the interpreter ends.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = False
        self._thread = start_thread(name, partial(_run_helper, self._calls), _pool_failed)

    def begin(self, call: Callable[[], None]) -> bool:
        """Have the thread make a call. False after `close`."""
        if not self._closed:
            self._calls.put(call)
        return not self._closed

    def close(self) -> None:
        """Wait for the calls that were begun, and accept no more."""
        self._closed = True
        self._calls.put(None)
        self._thread.join()

    def __del__(self) -> None:
        self._calls.put(None)


def _run_helper(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call


def _work(calls: SimpleQueue[Callable[[], None] | None], idle: threading.Semaphore) -> None:
    while (call := calls.get()) is not None:
        call()
        del call
        idle.release()


_pool_failed = logged("a thread of kvwal's pool has stopped, which is a bug; the others go on")


class LoopEnded(Exception):
    """The event loop of a `LoopThread` has ended before the coroutine was begun, or before it had ended."""


class LoopThread:
    """An event loop on its own thread, through which synchronous callers use asyncio code."""

    def __init__(self, name: str, on_failure: OnError) -> None:
        """`on_failure` gets the error of a loop that cannot go on. Called on the loop's thread, after all tasks are closed."""
        self._on_failure = on_failure
        self._begun: set[Future[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._loop.time = SYSTEM.elapsed  # type: ignore[method-assign]  # see `SystemClock.elapsed`
        self._lock = Lock()
        self._ended = False
        self._thread = start_thread(name, partial(_serve, self._loop), self._fail)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin a coroutine on the loop; `wait` returns its result.

        `LoopEnded` if the loop has ended; `WrongLoop` if the caller is on the loop's thread.
        """
        if this_thread() == self._thread.ident:
            work.close()
            raise WrongLoop(
                "this is the thread that writes the log (a callback of a future runs here), and the call would wait for it.",
                hint="Call it from a thread of your own.",
            )
        return self._begin(work)

    def wait(self, future: Future[T]) -> T:
        """Wait for the result of a coroutine that `begin` began. `LoopEnded` if the loop ended first."""
        try:
            return future.result()
        except CancelledError:
            raise LoopEnded from None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result. Raises the errors of `begin` and `wait`."""
        return self.wait(self.begin(work))

    def close(self) -> None:
        """Cancel the loop's tasks, end the loop, and wait for its thread. A second call does nothing."""
        self._end()
        self._thread.join()

    def end_after(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Begin a last coroutine on the loop, and end the loop after it. Does not wait, so that a finalizer may call it.

        At the interpreter's end it does nothing, because the thread does not run any more.
        """
        try:
            when_done(self._begin(work()), lambda _: self._end(), _loop_failed)
        except LoopEnded:
            return

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if interpreter_ends():  # the loop's thread does not run any more, and may hold the lock
            work.close()
            raise LoopEnded
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

    def _fail(self, error: BaseException) -> None:
        """Give all waiting callers an error, because the loop cannot go on: for example, the program closed its descriptors."""
        with self._lock:
            self._ended = True
        _loop_failed(error)
        for task in asyncio.all_tasks(self._loop):
            contain(task.get_coro().close, _loop_failed)
        contain(partial(self._on_failure, error), _loop_failed)
        for future in list(self._begun):
            if not future.done():
                future.set_exception(LoopEnded())
        contain(self._loop.close, _loop_failed)


_loop_failed = logged("an error reached the thread of kvwal's event loop")


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, then cancel its tasks: no caller of a task may wait for ever."""
    serve_until_stopped(loop, _loop_failed)
    running = asyncio.all_tasks(loop)
    for task in running:
        task.cancel()
    if running:
        loop.run_until_complete(asyncio.wait(running))
    loop.close()
