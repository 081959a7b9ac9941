"""The ring: many producers, threads and tasks, hand transactions to the single log writer.

A bounded janus queue. What bounds it are slots and bytes: 1,024 waiting values of 1 MB must not eat the memory. One slot
carries all that one call, or one tick of an event loop, submits: a slot costs some microseconds, a transaction in it nothing.
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
"""What an entry costs in the ring besides its key and value."""
TICK_BYTES = 1 << 20
"""About what one tick of an event loop hands over as one slot at most: a thousand tasks with large values are many slots."""

Lookup: TypeAlias = Callable[[str, bytes], Entry | None]
"""The latest entry of an identity, as of all transactions before this one; None if it is absent, deleted or expired."""
Decide: TypeAlias = Callable[[Lookup], list[Entry]]
"""What a conditional write does: the entries to log, none if its condition does not hold."""


class Answer(Protocol):
    """What a submission's answer is given to, on the writer's loop: a future, or something that needs no round of the loop."""

    def cancelled(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    def done(self) -> bool:
        """Whether it was given, or cancelled."""
        ...

    def set_result(self, result: Any, /) -> None:
        """It is written."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """It is not, or perhaps not."""
        ...


class Submission:
    """A transaction on its way: entries that wait for their timestamp, or a condition that the writer will decide.

    `future` gets the timestamp of the transaction, or, of a condition, whether it held.
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
        """Whether it is to be written: a caller that cancelled before the writer took it wants nothing written."""
        future = self.future
        if isinstance(future, Future):
            return future.set_running_or_notify_cancel()
        return not future.cancelled()

    def resolve(self) -> None:
        """Acknowledge."""
        if not self.future.done():
            self.future.set_result(self.answer)

    def fail(self, error: BaseException) -> None:
        """Tell the caller that it was not, or perhaps not, written."""
        if not self.future.done():
            self.future.set_exception(error)


class Command:
    """Something that the writer does between two groups: rotate, flush, close. `future` gets its result."""

    __slots__ = ("action", "future")

    def __init__(self, action: Callable[[], Awaitable[Any]], future: asyncio.Future[Any]) -> None:
        self.action = action
        self.future = future


Slot: TypeAlias = list[Submission] | Command


def size_of(entries: list[Entry]) -> int:
    """About how many bytes these entries take in the ring and in the log."""
    if len(entries) == 1:
        return len(entries[0].key) + len(entries[0].value) + ENTRY_BYTES
    return sum([len(entry.key) + len(entry.value) for entry in entries], ENTRY_BYTES * len(entries))


class _BoundedQueue(janus.Queue[Slot]):
    """A janus queue that is also full when what waits in it has `limit` bytes."""

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
    """The queue between producers and the one consumer. Made on the consumer's event loop."""

    def __init__(self, slots: int, limit: int, patience: float, now: Callable[[], float]) -> None:
        """`patience` is how many seconds a producer waits for room, `now` gives seconds that never step back."""
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
        # What the consumer sleeps on while nothing waits. janus can wake it too, but through a task and a lock of its own each
        # time, which costs as much as an fdatasync. Only the consumer sets and clears it,
        # and it looks once more after setting it; a producer looks after it has put.
        self._sleep: asyncio.Future[None] | None = None

    @property
    def slots(self) -> int:
        """Slots that wait now."""
        return len(self._queue._queue)

    @property
    def bytes(self) -> int:
        """Bytes that wait now."""
        return self._queue.bytes

    @property
    def waited(self) -> float:
        """Seconds since the first of what was taken last had been handed over."""
        return self._now() - self._oldest

    def put(self, submission: Submission, *, waits: bool = False) -> None:
        """Hand over a transaction from any thread. Waits while the ring is full, at most its `patience`.

        The loop's own thread does not wait for room; `WrongLoop` if it would then wait for the answer (`waits`).
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
            with suppress(RuntimeError):  # the loop is closed: by then what waits was taken, or refused
                call_on(self._loop, partial(_wake, sleep), _wake_failed)

    def offer(self, submission: Submission) -> bool:
        """Hand over a transaction from a task of the loop, if there is room now."""
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
        """Hand over a transaction from a task of the loop. Waits while the ring is full, at most its `patience`; does not
        wait for the writer.
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
        """All that tasks submitted in this round of the loop goes into one slot. It ends by itself; this ends it now."""
        tick, self._tick, self._tick_bytes = self._tick, [], 0
        if not tick:
            return  # an order, or its size, ended the tick before its end
        contain(partial(self._hand_over, tick), partial(_fail_each, tick))

    def _hand_over(self, tick: list[Submission]) -> None:
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
        """Have the writer do `action` between two groups, behind all that waits, and return its result."""
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
        """Wait for something, then take all that waits, up to an order or about `most_bytes`."""
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
        """Take nothing more, and refuse what still waits."""
        self.refuse(_closed)
        await self._queue.aclose()

    def refuse(self, why: Callable[[], KvwalError]) -> None:
        """Refuse what waits, and all that comes, with the error that `why` makes. On the consumer's loop."""
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
            hint="Write more slowly, or see why the disk is slow.",
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
