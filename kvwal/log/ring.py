"""The ring: a bounded queue from many producers, threads and tasks, to the single log writer.

It is a janus queue bounded by slots and by bytes, because 1,024 waiting values of 1 MB must not fill the memory. One slot carries
all submissions of one call, or of one tick of an event loop: a slot costs some microseconds, one more transaction in it nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeAlias

import janus

from kvwal.entry import Entry
from kvwal.errors import KvwalError, Overloaded, StoreClosed, WrongLoop
from kvwal.ports.boundary import call_on, call_soon, contain, logged, start_task
from kvwal.ports.tasks import this_thread

ENTRY_BYTES = 64
"""Estimated bytes of an entry in the ring besides its key and value."""
TICK_BYTES = 1 << 20
"""About how many bytes one slot gets from a tick of an event loop: a thousand tasks with large values fill several slots."""

Lookup: TypeAlias = Callable[[str, bytes], Entry | None]
"""The latest entry of an identity, as of all transactions before this one; None if it is absent, deleted or expired."""
Decide: TypeAlias = Callable[[Lookup], list[Entry]]
"""A conditional write: returns the entries to log, none if the condition does not hold."""


class Answer(Protocol):
    """The receiver of a submission's result, on the writer's loop: a future, or an object that needs no turn of the loop."""

    def cancelled(self) -> bool:
        """Whether the caller has stopped waiting."""
        ...

    def done(self) -> bool:
        """Whether the result was set, or the wait cancelled."""
        ...

    def set_result(self, result: Any, /) -> None:
        """The submission was written."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """The submission was not written, or its outcome is unknown."""
        ...


class Submission:
    """A transaction that waits for the writer: entries without timestamps, or a conditional write that the writer decides.

    `future` gets the timestamp of the transaction; for a conditional write it gets whether the condition held.
    """

    __slots__ = ("answer", "decide", "entries", "future", "size", "sync")

    def __init__(
        self,
        entries: list[Entry],
        size: int,
        future: Answer,
        decide: Decide | None = None,
        sync: bool = False,
    ) -> None:
        """`size` is `size_of(entries)`."""
        self.entries = entries
        self.size = size
        self.future = future
        self.decide = decide
        self.sync = sync
        self.answer: int | bool = False

    def begin(self) -> bool:
        """Whether to write the submission: False if its caller cancelled before the writer took it."""
        future = self.future
        if isinstance(future, Future):
            return future.set_running_or_notify_cancel()
        return not future.cancelled()

    def resolve(self) -> None:
        """Acknowledge the submission: give the caller its result."""
        if not self.future.done():
            self.future.set_result(self.answer)

    def fail(self, error: BaseException) -> None:
        """Give the caller an error: the submission was not written, or its outcome is unknown."""
        if not self.future.done():
            self.future.set_exception(error)


class ConditionalSubmission(Submission):
    """A transaction that happens only if `decide` accepts the values of some keys, `guards`: pairs of class and bytes."""

    __slots__ = ("guards",)

    def __init__(
        self, entries: list[Entry], size: int, future: Answer, decide: Decide, guards: list[tuple[str, bytes]]
    ) -> None:
        super().__init__(entries, size, future, decide)
        self.guards = guards


class Command:
    """An action of the writer between two groups: rotate, flush or close. `future` gets its result."""

    __slots__ = ("action", "future")

    def __init__(self, action: Callable[[], Awaitable[Any]], future: asyncio.Future[Any]) -> None:
        self.action = action
        self.future = future


Slot: TypeAlias = list[Submission] | Command


def size_of(entries: list[Entry]) -> int:
    """Estimated bytes of these entries in the ring and in the log."""
    if len(entries) == 1:
        return len(entries[0].key) + len(entries[0].value) + ENTRY_BYTES
    return sum([len(entry.key) + len(entry.value) for entry in entries], ENTRY_BYTES * len(entries))


class _BoundedQueue(janus.Queue[Slot]):
    """A janus queue that is also full when its waiting submissions have `limit` bytes."""

    def __init__(self, slots: int, limit: int, now: Callable[[], float]) -> None:
        self.limit = limit
        self.bytes = 0
        self.since = 0.0
        self._now = now
        super().__init__(slots)

    def _init(self, maxsize: int) -> None:
        self._queue: deque[Slot] = deque()
        self._since: deque[float] = deque()

    def _qsize(self) -> int:
        waiting = len(self._queue)
        return waiting if self.bytes < self.limit else max(waiting, self.maxsize)

    def _put(self, item: Slot) -> None:
        self._queue.append(item)
        self._since.append(self._now())
        self.bytes += _slot_bytes(item)

    def _get(self) -> Slot:
        item = self._queue.popleft()
        self.since = self._since.popleft()
        self.bytes -= _slot_bytes(item)
        return item


def _slot_bytes(slot: Slot) -> int:
    return 0 if isinstance(slot, Command) else sum([submission.size for submission in slot])


class Ring:
    """The queue between producers and the one consumer. Created on the consumer's event loop."""

    def __init__(self, slots: int, limit: int, patience: float, now: Callable[[], float]) -> None:
        """`patience` is how many seconds a producer waits for space; `now` returns seconds that never step back."""
        self._loop = asyncio.get_running_loop()
        self._thread = this_thread()
        self._queue = _BoundedQueue(slots, limit, now)
        self._now = now
        self._oldest = 0.0
        self._patience = patience
        self._tick: list[Submission] = []
        self._tick_bytes = 0
        self._waiting: asyncio.Task[None] | None = None
        self._ended: Callable[[], KvwalError] = _closed
        # The consumer awaits this future while the queue is empty. janus could wake the consumer, but with a task and a lock each
        # time, which costs as much as an fdatasync. Only the consumer sets and clears the future. No wakeup is lost: the consumer
        # checks the queue once more after it has set the future, and a producer reads the future after it has put its slot.
        self._sleep: asyncio.Future[None] | None = None

    @property
    def slots(self) -> int:
        """Number of waiting slots."""
        return len(self._queue._queue)

    @property
    def bytes(self) -> int:
        """Bytes of waiting submissions."""
        return self._queue.bytes

    @property
    def waited(self) -> float:
        """Seconds since the oldest slot of the last `take` was put."""
        return self._now() - self._oldest

    def put(self, submission: Submission, *, waits: bool = False) -> None:
        """Submit a transaction from any thread. Waits while the ring is full, at most for its `patience`.

        The loop's own thread does not wait for space. `WrongLoop` if the caller is on that thread and will wait for the result
        (`waits`).
        """
        here = this_thread() == self._thread
        if here and waits:
            raise _would_wait()
        try:
            self._queue.sync_q.put([submission], timeout=0 if here else self._patience)
        except janus.SyncQueueFull:
            raise self._overloaded() from None
        except janus.SyncQueueShutDown:
            error = self._ended()
            raise error from error.__cause__
        sleep = self._sleep
        if sleep is not None:
            with suppress(RuntimeError):  # the loop is closed: all submissions were taken or refused before
                call_on(self._loop, partial(_wake, sleep), _wake_failed)

    def offer(self, submission: Submission) -> bool:
        """Submit a transaction from a task of the loop. False, and nothing is submitted, if the ring is full."""
        if self._waiting is not None:
            return False
        tick = self._tick
        if not tick:
            if self._queue.closed:
                error = self._ended()
                raise error from error.__cause__
            call_soon(self._loop, self.end_tick, _wake_failed)
        tick.append(submission)
        self._tick_bytes += submission.size
        if self._tick_bytes >= TICK_BYTES:
            self.end_tick()
        return True

    async def put_soon(self, submission: Submission) -> None:
        """Submit a transaction from a task of the loop. Waits while the ring is full, at most for its `patience`.

        It does not wait for the writer.
        """
        if self.offer(submission):
            return
        try:
            async with asyncio.timeout(self._patience):
                while not self.offer(submission):
                    if self._waiting is not None:
                        await asyncio.shield(self._waiting)
        except TimeoutError:
            raise self._overloaded() from None

    def end_tick(self) -> None:
        """Put all that tasks submitted in this tick of the loop into one slot. Runs by itself at the end of the tick."""
        tick, self._tick, self._tick_bytes = self._tick, [], 0
        if not tick:
            return  # a command, or the limit of bytes, ended the tick early
        contain(partial(self._put_tick, tick), partial(_fail_each, tick))

    def _put_tick(self, tick: list[Submission]) -> None:
        try:
            self._queue.async_q.put_nowait(tick)
            self._wake_consumer()
        except janus.AsyncQueueFull:
            self._waiting = start_task(self._put_when_room(tick), partial(_fail_each, tick))
        except janus.AsyncQueueShutDown:
            self._refuse(tick)

    async def _put_when_room(self, tick: list[Submission]) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._queue.async_q.put(tick)
            self._wake_consumer()
        except TimeoutError:
            for submission in tick:
                submission.fail(self._overloaded())
        except janus.AsyncQueueShutDown:
            self._refuse(tick)
        except asyncio.CancelledError:
            self._refuse(tick)
            raise
        finally:
            self._waiting = None

    async def command(self, action: Callable[[], Awaitable[Any]]) -> Any:
        """Have the writer run `action` between two groups, after all waiting submissions, and return its result."""
        command = Command(action, self._loop.create_future())
        self.end_tick()
        while self._waiting is not None:
            await asyncio.shield(self._waiting)
        try:
            await self._queue.async_q.put(command)
            self._wake_consumer()
        except janus.AsyncQueueShutDown:
            error = self._ended()
            raise error from error.__cause__
        return await command.future

    async def take(self, most_bytes: int) -> tuple[list[Submission], Command | None]:
        """Wait for a slot, then take all waiting submissions, up to the next command or about `most_bytes`."""
        queue = self._queue.async_q
        slot = await self._next()
        self._oldest = self._queue.since
        taken: list[Submission] = []
        size = 0
        while True:
            if isinstance(slot, Command):
                return taken, slot
            taken += slot
            size += _slot_bytes(slot)
            if size >= most_bytes:
                return taken, None
            try:
                slot = queue.get_nowait()
            except janus.AsyncQueueEmpty:
                return taken, None

    async def _next(self) -> Slot:
        while True:
            try:
                return self._queue.async_q.get_nowait()
            except janus.AsyncQueueEmpty:
                sleep = self._sleep = self._loop.create_future()
            if self._queue.async_q.empty():
                await sleep
            self._sleep = None

    def _wake_consumer(self) -> None:
        if self._sleep is not None:
            _wake(self._sleep)

    async def close(self) -> None:
        """Accept no more submissions, and refuse the waiting ones."""
        self.refuse(_closed)
        await self._queue.aclose()

    def refuse(self, why: Callable[[], KvwalError]) -> None:
        """Refuse all waiting and later submissions with the error that `why` returns. Called on the consumer's loop."""
        self._ended = why
        self._queue.shutdown(immediate=False)
        while not self._queue.async_q.empty():
            slot = self._queue.async_q.get_nowait()
            if isinstance(slot, Command):
                if not slot.future.done():
                    slot.future.set_exception(why())
            else:
                self._refuse(slot)

    def _refuse(self, submissions: list[Submission]) -> None:
        for submission in submissions:
            submission.fail(self._ended())

    def _overloaded(self) -> Overloaded:
        return Overloaded(
            f"the log writer is behind: {self.slots:,} submissions with {self.bytes:,} bytes wait for it, and for"
            f" {self._patience:g} s there was no room for one more; nothing was written.",
            hint="Write more slowly, or check why the disk is slow.",
        )


def _wake(sleep: asyncio.Future[None]) -> None:
    if not sleep.done():
        sleep.set_result(None)


_wake_failed = logged("the log writer could not be woken, which is a bug")


def _fail_each(submissions: list[Submission], error: BaseException) -> None:
    for submission in submissions:
        submission.fail(error)


def _closed() -> StoreClosed:
    return StoreClosed("the store is closed; nothing was written.", hint="Open it again.")


def _would_wait() -> WrongLoop:
    return WrongLoop(
        "this is the thread that writes (a callback of a future runs here), and the call would wait for it; nothing was written.",
        hint="Use `submit` here, or call from a thread of your own.",
    )
