"""Boundaries of threads, tasks and callbacks: an error that reaches one, of any class, is given to an error handler.

A thread, a task or a callback has no caller. An error that leaves it is lost. It may also end the thread that ran it, and then
callers that wait for this thread wait for ever. So each thread, task and callback starts here, with its error handler
`on_error(error)`. This is the only module that may catch every exception.

`SystemExit` and `KeyboardInterrupt` on another thread than the main thread would end only that thread: they are errors there.
On the main thread they belong to the program: the error handler is called, and they are raised again. Cancelling a task is no
error.
"""

from __future__ import annotations

import atexit
import logging
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kvwal.errors import ConfigError, KvwalError

# At run time asyncio is imported where a task starts: `kvwal get` starts none, and importing asyncio takes longer than a get.
if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
OnError = Callable[[BaseException], None]
"""An error handler. It may be called on any thread."""

_GREENLETS = (
    ("gevent", "monkey", "is_module_patched", ("threading", "select", "socket")),
    ("eventlet", "patcher", "is_monkey_patched", ("thread", "select", "socket")),
)
"""Libraries that replace threads: the module that knows what it replaced, its question, and what is asked for."""

_log = logging.getLogger("kvwal.boundary")


def logged(sentence: str) -> OnError:
    """An error handler that logs the sentence with the error's trace, for errors that need no other action."""

    def log_error(error: BaseException) -> None:
        _log.error(sentence, exc_info=error)

    return log_error


def trace_of_bug(error: BaseException) -> BaseException | None:
    """The error as the trace of a log line; None for a `KvwalError` or an `OSError`, whose sentence says what to do."""
    return None if isinstance(error, KvwalError | OSError) else error


def raised_to_awaiter(error: BaseException) -> None:
    """The error handler of a task that kvwal awaits. It does nothing, because the await raises the error."""


def contain(call: Callable[[], Any], on_error: OnError) -> None:
    """Call `call`. `on_error` gets the error that it raises."""
    try:
        call()
    except BaseException as error:
        _report(on_error, error)
        if _is_the_programs(error):
            raise


def contain_each(calls: Iterable[Callable[[], Any]], on_error: OnError) -> None:
    """Call each of `calls`, also after one of them has raised."""
    left: BaseException | None = None
    for call in calls:
        try:
            call()
        except BaseException as error:
            _report(on_error, error)
            left = error if _is_the_programs(error) else left
    if left is not None:
        raise left


def raise_together(failures: Mapping[str, BaseException]) -> None:
    """Raise the first of `failures`, which are keyed by the name of what failed. Do nothing if there are none.

    The raised error keeps its class, so that `except LogFailed` catches it. It gets a note for each other failure; `others` of a
    `KvwalError` has the other errors themselves.
    """
    errors = list(failures.values())
    if not errors:
        return
    first = errors[0]
    for what, error in list(failures.items())[1:]:
        first.add_note(f"{what} failed too: {type(error).__name__}: {error}")
    if isinstance(first, KvwalError):
        first.others = tuple(errors[1:])
    raise first


def guard(call: Callable[..., Any], on_error: OnError) -> Callable[..., None]:
    """`call` as a callback that raises nothing: see `contain`."""

    def guarded(*arguments: Any) -> None:
        contain(partial(call, *arguments), on_error)

    return guarded


async def contain_awaiting(work: Callable[[], Awaitable[Any]], on_error: OnError) -> None:
    """Await `work()`. `on_error` gets the error that it raises; a cancellation is raised again."""
    import asyncio

    try:
        await work()
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        _report(on_error, error)
        if _is_the_programs(error):
            raise


async def settle_awaiting(future: asyncio.Future[T], work: Callable[[], Awaitable[T]]) -> None:
    """Await `work()` and set its result, or the error that it raises, in `future`, unless the future is done."""

    def set_error(error: BaseException) -> None:
        if not future.done():
            future.set_exception(_settable(error))

    async def settled() -> None:
        result = await work()
        if not future.done():
            future.set_result(result)

    try:
        await contain_awaiting(settled, set_error)
    finally:
        future.cancel()  # wakes the future's awaiter if this task was cancelled; does nothing if the future is done


class Settable(Protocol[T_contra]):
    """What is told how a call ended: a future, or what is cheaper than one."""

    def set_result(self, result: T_contra, /) -> None:
        """The call returned this."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """The call raised this."""
        ...


def settle(future: Settable[T], call: Callable[[], T]) -> None:
    """Call `call` and set its result, or the error that it raises, in `future`. Raises nothing."""
    try:
        result = call()
    except BaseException as error:
        contain(partial(future.set_exception, _settable(error)), _callback_failed)
    else:
        contain(partial(future.set_result, result), _callback_failed)


class CommitFuture(Future[T]):
    """The future that a caller of `submit` gets. No callback of the future can stop the writing thread, or another callback.

    Errors of callbacks are logged, `SystemExit` included. A callback that is added to a finished future is called at once, on
    the thread that adds it; that thread gets the errors that a standard future would raise there.
    """

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """See `concurrent.futures.Future.add_done_callback`."""
        adding = True

        def called(future: Future[T]) -> None:
            if adding and threading.get_ident() == adder:
                fn(future)
            else:
                contain(partial(fn, future), _callback_failed)

        adder = threading.get_ident()
        try:
            super().add_done_callback(called)
        finally:
            adding = False


def start_thread(name: str, target: Callable[[], Any], on_error: OnError) -> threading.Thread:
    """Start a daemon thread that calls `target`. Raises `ConfigError` where threads are none (see `check_threads`)."""
    check_threads()
    thread = threading.Thread(target=contain, args=(target, on_error), name=name, daemon=True)
    thread.start()
    return thread


def check_threads() -> None:
    """Raise `ConfigError` if gevent or eventlet has replaced the threads or the sockets of this process by its own.

    A greenlet that waits for an fdatasync, or for an event loop, gives no other greenlet the processor: the store would stand
    still.
    """
    for library, module, asked, names in _GREENLETS:
        patches = sys.modules.get(f"{library}.{module}")
        if patches is not None and any(map(getattr(patches, asked), names)):
            raise ConfigError(
                f"{library} has replaced threads and sockets of this process, and a store, or a connection to a cluster, needs"
                " those of the operating system.",
                hint=f"Use kvwal in a process that {library} has not patched; gunicorn has the worker class gthread.",
            )


def start_task(work: Coroutine[Any, Any, T], on_error: OnError) -> asyncio.Task[T]:
    """Start a task on the running loop. `on_error` gets the error that ends the task, on a later turn of the loop.

    asyncio also raises a task's `SystemExit` or `KeyboardInterrupt` in the caller of the loop.
    """
    import asyncio

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(partial(_ended, on_error))
    return task


def when_done(future: Any, callback: Callable[[Any], Any], on_error: OnError) -> None:
    """Call `callback` with the future once the future is done. It may be of asyncio, of threads, or of the Hazelcast client."""
    future.add_done_callback(guard(callback, on_error))


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], Any], on_error: OnError) -> None:
    """Call `call` on the next turn of the loop. For callers on the loop's thread."""
    loop.call_soon(contain, call, on_error)


def call_later(
    loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[[], Any], on_error: OnError
) -> asyncio.TimerHandle:
    """Call `call` on the loop after `seconds` seconds."""
    return loop.call_later(seconds, contain, call, on_error)


def call_on(loop: asyncio.AbstractEventLoop, call: Callable[[], Any], on_error: OnError) -> None:
    """Call `call` on the loop, from any thread. `RuntimeError` if the loop is closed."""
    loop.call_soon_threadsafe(contain, call, on_error)


def begin_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine on the loop, from any thread. The future gets its result, or the error that it raises."""
    import asyncio

    return asyncio.run_coroutine_threadsafe(work, loop)


def at_exit(call: Callable[[], Any], on_error: OnError) -> Callable[[], None]:
    """Call `call` when the interpreter ends, unless the function that this returns is called before."""
    contained = partial(contain, call, on_error)
    atexit.register(contained)
    return partial(atexit.unregister, contained)


def on_readable(loop: asyncio.AbstractEventLoop, descriptor: int, call: Callable[[], Any], on_error: OnError) -> None:
    """Call `call` on the loop whenever the descriptor can be read."""
    loop.add_reader(descriptor, contain, call, on_error)


def on_signals(
    loop: asyncio.AbstractEventLoop, numbers: Iterable[signal.Signals], call: Callable[[], Any], on_error: OnError
) -> None:
    """Call `call` on the loop when the process gets one of these signals."""
    for number in numbers:
        loop.add_signal_handler(number, contain, call, on_error)


def serve_until_stopped(loop: asyncio.AbstractEventLoop, on_error: OnError) -> None:
    """Run kvwal's own event loop until `loop.stop()`. A `SystemExit` or `KeyboardInterrupt` of a task does not end it.

    Any other error is a failure of the loop itself, and is raised.
    """
    while True:
        try:
            return loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            _report(on_error, error)


def _ended(on_error: OnError, task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _report(on_error, error)


def _settable(error: BaseException) -> BaseException:
    """`error`, or a `RuntimeError` in place of a `StopIteration`.

    asyncio refuses `StopIteration` as the exception of a future, and the future's awaiter would wait for ever.
    """
    if not isinstance(error, StopIteration):
        return error
    stopped = RuntimeError("a call raised StopIteration")
    stopped.__cause__ = error
    return stopped


def _report(on_error: OnError, error: BaseException) -> None:
    """Call the error handler. If the handler raises, log its error together with `error`, so that the caller goes on."""
    try:
        on_error(error)
    except BaseException:
        with suppress(BaseException):  # a log handler of the program may have raised
            _log.critical("an error handler raised an error itself; the first error was %r", error, exc_info=True)


def _is_the_programs(error: BaseException) -> bool:
    exits = isinstance(error, SystemExit | KeyboardInterrupt)
    return exits and threading.current_thread() is threading.main_thread()


_callback_failed = logged("a callback of a future raised an error; the store goes on")
