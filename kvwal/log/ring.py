"""The ring: a bounded queue from many producers, threads and tasks, to the log writer, and the turn to write.

It is a janus queue bounded by slots and by bytes, because 1,024 waiting values of 1 MB must not fill the memory. One slot carries
all submissions of one call, or of one tick of an event loop: a slot costs some microseconds, one more transaction in it nothing.

One consumer at a time takes slots: the holder of the turn. A thread that waits for its own write, and finds the turn free, takes
it and writes a group: its own submission, and those that came meanwhile (the field's words: a leader and its followers). At the
end of the group it hands the turn to a thread whose submission waits, or to the event loop. The event loop also writes what no
thread may write: what tasks and the main thread submit, and commands.

No wake-up is lost. A producer puts its slot, then tries to take the turn (to become leader). A leader gives up the turn, then
looks for slots. So a slot never waits while the turn is free.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import janus

from kvwal.errors import KvwalError, Overloaded, StoreClosed, WrongLoop
from kvwal.log.bounded_queue import BoundedQueue
from kvwal.log.submission import Submission, WriterCommand
from kvwal.log.waiter import Waiter, program_ends
from kvwal.ports.boundary import call_on, call_soon, contain, contain_each, logged, start_task
from kvwal.ports.locks import Lock, interpreter_ends
from kvwal.ports.processes import tell_if_forked
from kvwal.ports.tasks import this_thread

TICK_BYTES = 1 << 20
"""About how many bytes one slot gets from a tick of an event loop: a thousand tasks with large values fill several slots."""
GROUP_BYTES = 8 << 20
"""About the most bytes that one group takes from the ring. It bounds the memory, and the waiting time, of a group."""
_HEADS = 8
"""How many slots are searched for a thread that may write the next group."""


class _WritingThreads:
    """Ids of the threads that write a group of any log now. None of them may wait for a write."""

    def __init__(self) -> None:
        self.ids: set[int] = set()
        tell_if_forked(self)

    def forked(self) -> None:
        """In a forked child: forget the parent's threads. The child's threads get their ids."""
        self.ids.clear()


_writing = _WritingThreads()


class Ring:
    """The queue between producers and the one consumer. Created on the writer's event loop.

    `serve` writes a group on the calling thread, answers it, and raises nothing. Until it is set, the event loop writes all
    groups. `delegate` has another thread call a function, where no signal handler runs; False if there is no such thread.
    """

    def __init__(self, slots: int, limit: int, put_timeout: float, now: Callable[[], float]) -> None:
        """`put_timeout` is how many seconds a producer waits for space; `now` returns seconds that never step back."""
        self.serve: Callable[[list[Submission]], None] | None = None
        self.delegate: Callable[[Callable[[], None]], bool] = lambda call: False
        self._loop = asyncio.get_running_loop()
        self._thread = this_thread()
        self._queue = BoundedQueue(slots, limit, now)
        self._now = now
        self._put_timeout = put_timeout
        self._tick: list[Submission] = []
        self._tick_bytes = 0
        self._waiting: asyncio.Task[None] | None = None
        self._ended: Callable[[], KvwalError] = _closed
        self._stopped: BaseException | None = None
        # Answers for callers on the loop. Who appends one looks afterwards whether the loop has left them behind, and who shuts
        # the ring down looks here afterwards.
        self._unanswered: deque[tuple[list[Submission], KvwalError | None]] = deque()
        self._turn = Lock()
        # Whether the loop holds the turn. Who hands the turn to the loop sets it and wakes the loop; the loop alone clears it.
        self._loop_leads = False
        # The loop awaits this future while it does not hold the turn. Only the loop's thread uses it.
        self._sleep: asyncio.Future[None] | None = None

    @property
    def slots(self) -> int:
        """Number of waiting slots."""
        return self._queue.slots

    @property
    def bytes(self) -> int:
        """Bytes of waiting submissions."""
        return self._queue.bytes

    @property
    def waited(self) -> float:
        """Seconds since the oldest slot of the last group was put. For the holder of the turn."""
        return self._now() - self._queue.since

    def put(self, submission: Submission, *, waits: bool = False) -> None:
        """Submit a transaction from any thread. Waits while the ring is full, at most for `put_timeout`.

        `waits` says that the caller will wait for the result. A thread with a `Waiter` that may lead writes the group itself, if
        nobody else does. The main thread has another thread put and write: a signal handler may raise between any two of its
        steps, and may write itself, so it takes neither the turn nor a lock. Without `waits` (`submit`) it puts itself, and holds
        the lock of the queue meanwhile. A thread whose stack is nearly full has another thread put and write, too. A thread that
        writes does not wait for space, and gets `WrongLoop` if it wants to wait for the result.
        """
        thread = this_thread()
        here = thread == self._thread or thread in _writing.ids
        if here and waits:
            raise _would_wait()
        waiter = submission.future
        if self.serve is None or not isinstance(waiter, Waiter):
            _check_threads_run()
            self._enqueue(submission, 0 if here else self._put_timeout)
            if not self._turn.locked():
                self._call(self._take_turn)
        elif waiter.may_lead:
            self._put_and_lead(submission)
        else:
            _check_threads_run()
            self._delegate_put(submission)

    def _delegate_put(self, submission: Submission) -> None:
        """Have another thread put and write; the loop writes if there is no such thread."""
        if not self.delegate(partial(contain, partial(self._put_and_lead, submission), submission.fail)):
            self._enqueue(submission, self._put_timeout)
            self._call(self._take_turn)

    def _put_and_lead(self, submission: Submission) -> None:
        self._enqueue(submission, self._put_timeout)
        if self._turn.acquire(blocking=False):
            self._lead()

    def _enqueue(self, submission: Submission, timeout: float) -> None:
        try:
            if not self._queue.put_now([submission]):
                self._queue.sync_q.put([submission], timeout=timeout)
        except janus.SyncQueueFull:
            raise self._overloaded() from None
        except janus.SyncQueueShutDown:
            error = self._ended()
            raise error from error.__cause__

    def answer(self, submissions: list[Submission], error: KvwalError | None = None) -> None:
        """Give callers their results, or `error`. A waiting thread gets it at once, every other caller on the loop's thread."""
        others: list[Submission] = []
        for submission in submissions:
            if not isinstance(submission.future, Waiter):
                others.append(submission)
            elif error is None:
                submission.resolve()
            else:
                submission.fail(error)
        if not others:
            return
        self._unanswered.append((others, error))
        if this_thread() == self._thread or not self._call(self._give) or self._loop_has_left():
            self._give()

    def _give(self) -> None:
        """Give the callers on the loop their results. Called there, or on any thread once the loop has left them behind."""
        while True:
            try:
                submissions, error = self._unanswered.popleft()
            except IndexError:
                return
            contain_each(_answers(submissions, error), _result_not_given)

    def _loop_has_left(self) -> bool:
        """Whether the ring is shut down and its loop does not run: it may never make the calls that wait there."""
        return self._queue.is_shut_down and not self._loop.is_running()

    def _lead(self) -> None:
        """Write a group on this thread, which holds the turn, and hand the turn on. Raises nothing."""
        thread = this_thread()
        _writing.ids.add(thread)
        try:
            submissions, _ = self._queue.pop(GROUP_BYTES, commands=False)
            if submissions and self.serve is not None:
                self.serve(submissions)
        finally:
            self._hand_on()
            _writing.ids.discard(thread)

    def _hand_on(self) -> None:
        """Give up the turn: to a thread that waits, to the loop, or, if nothing waits, to the next producer."""
        while True:
            if self._queue.is_empty():
                self._turn.release()
                if self._queue.is_empty() or not self._turn.acquire(blocking=False):
                    return
            elif (next_leader := self._next_leader()) is not None:
                next_leader.lead(self._lead)
                return
            else:
                self._loop_leads = True
                self._call(self._wake)
                return

    def _next_leader(self) -> Waiter | None:
        """The waiter of a thread that may write the next group, None if the loop has to."""
        for slot in self._queue.heads(_HEADS):
            if isinstance(slot, WriterCommand):
                return None
            waiter = slot[0].future
            if isinstance(waiter, Waiter) and waiter.may_lead:
                return waiter
        return None

    def _call(self, call: Callable[[], None]) -> bool:
        """Call `call` on the loop. False if the loop is closed: then all submissions were taken or refused before."""
        try:
            call_on(self._loop, call, _wake_failed)
        except RuntimeError:  # a RecursionError is one, too
            if not self._loop.is_closed():
                raise
            return False
        return True

    def _take_turn(self) -> None:
        """Take the turn for the loop, if it is free. Called on the loop after a put."""
        if self._loop_leads or self._turn.acquire(blocking=False):
            self._loop_leads = True
            self._wake()

    def _wake(self) -> None:
        sleep = self._sleep
        if sleep is not None and not sleep.done():
            sleep.set_result(None)

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
        """Submit a transaction from a task of the loop. Waits while the ring is full, at most for `put_timeout`.

        It does not wait for the writer.
        """
        if self.offer(submission):
            return
        try:
            async with asyncio.timeout(self._put_timeout):
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
            if self._queue.put_now(tick):
                self._take_turn()
            else:
                self._waiting = start_task(self._put_when_room(tick), partial(_fail_each, tick))
        except janus.SyncQueueShutDown:
            self._refuse(tick)

    async def _put_when_room(self, tick: list[Submission]) -> None:
        try:
            async with asyncio.timeout(self._put_timeout):
                await self._queue.async_q.put(tick)
            self._take_turn()
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
        """Have the writer run `action` between two groups, after all submissions in the ring, and return its result."""
        command = WriterCommand(action, self._loop.create_future())
        self.end_tick()
        while self._waiting is not None:
            await asyncio.shield(self._waiting)
        try:
            self._queue.put_now(command)
            self._take_turn()
        except janus.SyncQueueShutDown:
            error = self._ended()
            raise error from error.__cause__
        return await command.future

    async def take(self, most_bytes: int) -> tuple[list[Submission], WriterCommand | None]:
        """Wait for the turn and a slot, then take all waiting submissions, up to the next command or about `most_bytes`.

        The loop keeps the turn until the next `take`.
        """
        while True:
            if self._stopped is not None:
                raise self._stopped
            if self._loop_leads:
                if self._queue.slots:
                    return self._queue.pop(most_bytes, commands=True)
                self._loop_leads = False
                self._turn.release()
            if self._queue.slots and self._turn.acquire(blocking=False):
                self._loop_leads = True
                continue
            sleep = self._sleep = self._loop.create_future()
            if not self._loop_leads:
                await sleep
            self._sleep = None

    def stop(self, error: BaseException) -> None:
        """Have the next `take` raise the error of a bug that stopped a thread's group. For any thread."""
        self._stopped = error
        self._call(self._wake)

    async def close(self) -> None:
        """Accept no more submissions, and refuse the waiting ones."""
        self.refuse(_closed)
        await self._queue.aclose()

    def refuse(self, why: Callable[[], KvwalError]) -> None:
        """Refuse all waiting and later submissions with the error that `why` returns. Called on the consumer's loop."""
        self._ended = why
        self._queue.shutdown(immediate=False)
        self._give()  # the loop may never run again
        while self._queue.slots:
            submissions, command = self._queue.pop(1, commands=True)
            self._refuse(submissions)
            if command is not None and not command.future.done():
                command.future.set_exception(why())

    def _refuse(self, submissions: list[Submission]) -> None:
        for submission in submissions:
            submission.fail(self._ended())

    def _overloaded(self) -> Overloaded:
        return Overloaded(
            f"the log writer is behind: {self.slots:,} batches of writes with {self.bytes:,} bytes wait for it, and for"
            f" {self._put_timeout:g} s there was no room for one more; nothing was written.",
            hint="Write more slowly, or check why the disk is slow.",
        )


def _answers(submissions: list[Submission], error: KvwalError | None) -> Iterator[Callable[[], None]]:
    """A call for each submission, made one after the other: a thousand at once would set off the garbage collector."""
    for submission in submissions:
        yield submission.resolve if error is None else partial(submission.fail, error)


_result_not_given = logged("the result of a write could not be given to its caller; the write itself is not affected")
_wake_failed = logged("the log writer could not be woken, which is a bug")


def _fail_each(submissions: list[Submission], error: BaseException) -> None:
    for submission in submissions:
        submission.fail(error)


def _closed() -> StoreClosed:
    return StoreClosed("the store is closed; nothing was written.", hint="Open it again.")


def _check_threads_run() -> None:
    """Raise `StoreClosed` while the interpreter ends: the threads of the store do not run any more, and its locks may be held."""
    if interpreter_ends():
        raise program_ends()


def _would_wait() -> WrongLoop:
    return WrongLoop(
        "this is the thread that writes (a callback of a future runs here), and the call would wait for it; nothing was written.",
        hint="Use `submit` here, or call from a thread of your own.",
    )
