"""Thread, task and callback boundaries: an error that crosses one is given to an owner, whatever its type.

A thread, a task or a callback has no caller. An error that leaves it is lost, and so may be the thread that ran it, with all
that others wait for. So each of them starts here and names its owner, `failed(error)`. This is the one module that may
catch everything.

`SystemExit` and `KeyboardInterrupt` on a thread other than the main thread would end that thread and nothing else: there
they are errors like any other. On the main thread they belong to the program: the owner is told, and they go on.
A cancelled task has not failed.
"""

from __future__ import annotations

import atexit
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kvwal.errors import KvwalError

# At run time it is imported where a task starts: `kvwal get` starts none, and asyncio takes longer than all it does.
if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
OnError = Callable[[BaseException], None]
"""The owner of an error. It may be called on any thread."""

_log = logging.getLogger("kvwal.boundary")


def logged(sentence: str) -> OnError:
    """An owner that logs the sentence with the error's trace, for what costs nothing else."""

    def log_error(error: BaseException) -> None:
        _log.error(sentence, exc_info=error)

    return log_error


def raised_to_awaiter(error: BaseException) -> None:
    """The owner of a task that kvwal awaits: the error is raised there, so nothing is to be done here."""


def contain(call: Callable[[], Any], on_error: OnError) -> None:
    """Call `call`. `failed` gets what it raises."""
    try:
        call()
    except BaseException as error:
        _report(on_error, error)
        if _is_the_programs(error):
            raise


def contain_each(calls: Iterable[Callable[[], Any]], on_error: OnError) -> None:
    """Call each of `calls`: none is left out because one before it raised."""
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
    """Raise the first of `failures` (by what failed), with all others told: nothing if there is none.

    It keeps its class, so that `except LogFailed` catches it. A note names each other failure, and `others` of a `KvwalError`
    has the errors themselves.
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
    """`call` as a callback, for whoever calls it: see `contain`."""

    def guarded(*arguments: Any) -> None:
        contain(partial(call, *arguments), on_error)

    return guarded


async def contain_awaiting(work: Callable[[], Awaitable[Any]], on_error: OnError) -> None:
    """Await `work()`. `failed` gets what it raises; a cancellation goes on."""
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
    """Await `work()`: its result, or what it raises, is the future's, unless that is done."""

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
        future.cancel()  # for who waits, when this task was cancelled; nothing otherwise


def settle(future: Future[T], call: Callable[[], T]) -> None:
    """Call `call`: its result, or what it raises, is the future's. Raises nothing."""
    try:
        result = call()
    except BaseException as error:
        contain(partial(future.set_exception, _settable(error)), _callback_failed)
    else:
        contain(partial(future.set_result, result), _callback_failed)


class CommitFuture(Future[T]):
    """The future that a caller of `submit` gets. No callback of it can stop the thread that writes, or another callback.

    What a callback raises is logged, `SystemExit` included. A callback of a future that is done is called at once, by the
    thread that adds it, which gets what a standard future raises then.
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
    """Start a daemon thread that calls `target`."""
    thread = threading.Thread(target=contain, args=(target, on_error), name=name, daemon=True)
    thread.start()
    return thread


def start_task(work: Coroutine[Any, Any, T], on_error: OnError) -> asyncio.Task[T]:
    """Start a task on the running loop. `failed` gets the error that ends it, on a later turn of the loop.

    asyncio lets `SystemExit` and `KeyboardInterrupt` of a task go on to the caller of the loop as well.
    """
    import asyncio

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(partial(_ended, on_error))
    return task


def when_done(future: Any, callback: Callable[[Any], Any], on_error: OnError) -> None:
    """Call `callback` with the future once that is done: of asyncio, of threads, or of the Hazelcast client."""
    future.add_done_callback(guard(callback, on_error))


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], Any], on_error: OnError) -> None:
    """Call `call` on the next turn of the loop, from a task of it."""
    loop.call_soon(contain, call, on_error)


def call_later(
    loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[[], Any], on_error: OnError
) -> asyncio.TimerHandle:
    """Call `call` on the loop after so many seconds."""
    return loop.call_later(seconds, contain, call, on_error)


def call_on(loop: asyncio.AbstractEventLoop, call: Callable[[], Any], on_error: OnError) -> None:
    """Call `call` on the loop, from any thread. `RuntimeError` if the loop is closed."""
    loop.call_soon_threadsafe(contain, call, on_error)


def begin_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine on the loop, from any thread: its result, or what it raises, is the future's."""
    import asyncio

    return asyncio.run_coroutine_threadsafe(work, loop)


def at_exit(call: Callable[[], Any], on_error: OnError) -> None:
    """Call `call` when the interpreter ends."""
    atexit.register(contain, call, on_error)


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
    """Run a loop that is kvwal's own until `loop.stop()`: a `SystemExit` that a task raised does not end it.

    Anything else that leaves the loop is the loop's own failure: it is raised.
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
    """Asyncio refuses a StopIteration as the exception of a future, whose awaiter would then wait for ever."""
    if not isinstance(error, StopIteration):
        return error
    stopped = RuntimeError("a call raised StopIteration")
    stopped.__cause__ = error
    return stopped


def _report(on_error: OnError, error: BaseException) -> None:
    """An owner that fails must not cost the others: its own error is logged, next to the one that it was told."""
    try:
        on_error(error)
    except BaseException:
        with suppress(BaseException):  # a log handler of the program may be what failed
            _log.critical("the owner of an error failed to take it; the error was %r", error, exc_info=True)


def _is_the_programs(error: BaseException) -> bool:
    exits = isinstance(error, SystemExit | KeyboardInterrupt)
    return exits and threading.current_thread() is threading.main_thread()


_callback_failed = logged("a callback of a future raised an error; the store goes on")
