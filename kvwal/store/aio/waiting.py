"""The waits of a task: for an item of a queue, and for the answer of a submission that it may withdraw."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from kvwal.errors import QueueFull
from kvwal.ports.boundary import call_on, logged
from kvwal.ports.tasks import this_thread
from kvwal.structures.queue.capacity import Room
from kvwal.structures.queue.waiters import Putter
from kvwal.structures.queue.waiting import TakersOfLog, checked_timeout

T = TypeVar("T")
_not_woken = logged("a task that waits for an item of a queue could not be woken, which is a bug")


class TaskSignal:
    """An event for one task, which any thread may set."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = this_thread()
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the task. Does not wait, and raises nothing."""
        if this_thread() == self._thread:
            self._event.set()
            return
        with suppress(RuntimeError):  # the loop is closed, so no task waits
            call_on(self._loop, self._event.set, _not_woken)

    async def wait(self, seconds: float | None) -> bool:
        """Wait at most `seconds` (None: without end). Returns whether the event was set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        return self._event.is_set()


async def taken_by(takers: TakersOfLog, take: Callable[[], Awaitable[list[T]]], timeout: float | None) -> list[T]:
    """As `kvwal.structures.queue.waiting.taken_by`, for a task. A take that is cancelled wakes another taker, too."""
    timeout = checked_timeout(timeout)
    if items := await take():
        return items
    for left in takers.rounds(timeout):
        signal, woken = TaskSignal(), False
        takers.state.waiters.expect(signal.set)
        takers.set_alarm()
        try:
            if takers.may_take and (items := await take()):
                return items
            woken = await signal.wait(left)
        finally:
            if not woken:
                takers.state.waiters.forget(signal.set)
    return await take() if takers.may_take else []


async def put_when_room(
    takers: TakersOfLog, put: Callable[[], Awaitable[T]], needs: Room, timeout: float | None, full: QueueFull
) -> T:
    """As `kvwal.structures.queue.waiting.put_when_room`, for a task. A put that is cancelled wakes another putter, too."""
    for left in takers.rounds(timeout):
        signal, woken = TaskSignal(), False
        putter = Putter(signal.set, needs)
        takers.state.waiters.expect_room(putter)
        try:
            woken = not takers.may_put(needs) and await signal.wait(left)
        finally:
            if not woken:
                takers.state.waiters.forget_putter(putter)
        if not woken and not takers.may_put(needs):
            break
        try:
            return await put()
        except QueueFull as error:
            full = error
        except BaseException:
            takers.state.waiters.wake_putters()
            raise
    raise full


class TaskWaiter:
    """A `Completion` for one waiting task, which makes it. A task that is cancelled withdraws the submission or, if the log
    writer has it already, waits for the outcome.
    """

    __slots__ = ("_begun", "_done", "_future", "_loop", "_withdrawn", "error")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """`loop` is that of the task and of the log."""
        self.error: BaseException | None = None
        self._loop = loop
        self._future: asyncio.Future[None] = loop.create_future()
        self._done = False
        self._begun = False
        self._withdrawn = False

    def cancelled(self) -> bool:
        """Whether the submission was withdrawn. The log writer asks once, when it takes the submission."""
        self._begun = True
        return self._withdrawn

    def done(self) -> bool:
        """See `Completion.done`."""
        return self._done

    def set_result(self, result: Any, /) -> None:
        """See `Completion.set_result`. Called on the loop's thread."""
        self._done = True
        if not self._future.done():
            self._future.set_result(None)

    def set_exception(self, error: BaseException, /) -> None:
        """See `Completion.set_exception`. Called on the loop's thread."""
        self.error = error
        self.set_result(None)

    async def wait(self) -> None:
        """Wait until the submission is written. Raises its error, or that the task was cancelled."""
        await self._future
        error, self.error = (
            self.error,
            None,
        )  # it refers to this frame, and to that of the caller, which has this object
        if error is not None:
            try:
                raise error
            finally:
                del error

    def withdraw(self) -> bool:
        """Withdraw the submission. False if the log writer has it: it may be written."""
        self._withdrawn = True  # before the look: on another thread the writer does it the other way round
        return not self._begun

    async def settled(self) -> None:
        """Wait until the outcome is known, also while the task is cancelled (again). The log answers each submission."""
        while not self._done:
            self._future = self._loop.create_future()
            with suppress(asyncio.CancelledError):
                await self._future


async def uncancelled(begin: Callable[[], Awaitable[None]]) -> None:
    """Await `begin()`, again if the task is cancelled meanwhile: for a call that has done nothing then."""
    while True:
        with suppress(asyncio.CancelledError):
            return await begin()


def on_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """The result of a call that blocks, made on a thread. If its task is cancelled, the call goes on, and nobody waits for it."""
    return asyncio.get_running_loop().run_in_executor(None, call)


async def ended(call: Callable[[], T]) -> T:
    """The result of a call that blocks, made on a thread. If the task is cancelled, its cancellation waits for the call's end."""
    future = on_thread(call)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        raise
