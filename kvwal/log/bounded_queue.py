"""Slots of the ring: a janus queue that is bounded by slots and by bytes, whose consumer takes many slots at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import janus

from kvwal.log.submission import Submission, WriterCommand

Slot: TypeAlias = list[Submission] | WriterCommand


class _Waiting(NamedTuple):
    """A slot, its bytes, and since when it waits."""

    slot: Slot
    bytes: int
    since: float


class BoundedQueue(janus.Queue[Slot]):
    """A janus queue that is also full when its waiting submissions have `limit` bytes.

    `since` is when the oldest slot of the last `pop` was put. The queue leans on private names of janus, because the public ones
    cost a put more than a tenth (docs/decisions/0086-private-names-of-janus.md). So one version of janus is pinned, and
    tests/unit/log/test_janus.py finds the names here and says which of them another version lacks or has changed.
    """

    def __init__(self, slots: int, limit: int, now: Callable[[], float]) -> None:
        self.limit = limit
        self.bytes = 0
        self.since = 0.0
        self._now = now
        super().__init__(slots)

    def _init(self, maxsize: int) -> None:
        self._waiting: deque[_Waiting] = deque()

    def _qsize(self) -> int:
        waiting = len(
            self._waiting
        )  # no `max` here, and no `min` below: it makes a tuple under the lock, see `put_now`
        return waiting if self.bytes < self.limit or waiting > self._maxsize else self._maxsize

    def _put(self, item: Slot) -> None:
        size = slot_bytes(item)
        self._waiting.append(_Waiting(item, size, self._now()))
        self.bytes += size

    def _get(self) -> Slot:
        waiting = self._waiting.popleft()
        self.since = waiting.since
        self.bytes -= waiting.bytes
        return waiting.slot

    @property
    def slots(self) -> int:
        """Number of waiting slots."""
        return len(self._waiting)

    @property
    def is_shut_down(self) -> bool:
        """Whether no more slots are accepted."""
        return self._is_shutdown

    def is_empty(self) -> bool:
        """Whether no slot waits now."""
        return not self._waiting

    def put_now(self, slot: Slot) -> bool:
        """Put a slot from any thread, without waiting. False, and nothing is put, if the queue is full.

        A command is put even into a full queue: threads that wait for space would take each free slot before it could.

        `janus.SyncQueueShutDown` after the queue was shut down. It is `put_nowait` of janus without the getters of janus: the
        consumer of the ring has its own wakeup.
        """
        # Made before the lock is taken: it may set off the garbage collector, and with it a finalizer that writes.
        waiting = _Waiting(slot, slot_bytes(slot), self._now())
        with self._sync_mutex:
            if self._is_shutdown:
                raise janus.SyncQueueShutDown
            if self._qsize() >= self._maxsize and not isinstance(slot, WriterCommand):
                return False
            self._waiting.append(waiting)
            self.bytes += waiting.bytes
            self._unfinished_tasks += 1
            return True

    def pop(self, most_bytes: int, *, commands: bool) -> tuple[list[Submission], WriterCommand | None]:
        """Take the waiting submissions, up to about `most_bytes` or to the next command. Does not wait.

        With `commands`, take that command, too. Producers that wait for space go on.
        """
        taken: list[Submission] = []
        command: WriterCommand | None = None
        with self._sync_mutex:
            waiting = self._waiting
            before = len(waiting)
            since = waiting[0].since if waiting else self.since
            least = self.bytes - most_bytes
            while waiting and (self.bytes > least or not taken):
                slot = waiting[0].slot
                if not isinstance(slot, WriterCommand):
                    taken += slot
                    self._get()
                    continue
                if commands:
                    command = slot
                    self._get()
                break
            self.since = since
            if len(waiting) < before:
                if self._sync_not_full_waiting:
                    self._sync_not_full.notify_all()
                if self._async_not_full_waiting:
                    self._notify_async(self._async_not_full.notify_all)
        return taken, command

    def heads(self, most: int) -> list[Slot]:
        """The first slots, at most `most`. For the consumer: only the consumer takes slots away."""
        slots: list[Slot] = []  # made before the lock is taken: see `put_now`
        with self._sync_mutex:
            count = len(self._waiting)
            for index in range(most if most < count else count):  # noqa: FURB136
                slots.append(self._waiting[index].slot)  # noqa: PERF401
        return slots


def slot_bytes(slot: Slot) -> int:
    """Bytes of the submissions in a slot."""
    if isinstance(slot, WriterCommand):
        return 0
    return slot[0].size if len(slot) == 1 else sum([submission.size for submission in slot])
