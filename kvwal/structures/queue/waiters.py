"""Takers and putters of one queue that wait: who is woken, and in which order. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol
from weakref import ref

from kvwal.ports.locks import Lock
from kvwal.structures.queue.capacity import Room
from kvwal.structures.queue.options import QueueOptions


class Awaited(Protocol):
    """What takers and putters wait for. Its methods take the lock of the queue's business."""

    options: QueueOptions

    def count(self) -> int:
        """The number of items that can be taken."""
        ...

    @property
    def room(self) -> Room:
        """The room that all items take."""
        ...

    @property
    def next_due(self) -> int:
        """When the next delayed item can be taken (unix ms); 0 if none is delayed."""
        ...


class Putter(NamedTuple):
    """A putter that waits: `wake`, which does not wait and raises nothing, and the room that it needs."""

    wake: Callable[[], None]
    needs: Room


class Waiters:
    """The takers and the putters of one queue. The methods are for any thread."""

    def __init__(self, lock: Lock, queue: Awaited) -> None:
        """`lock` is that of the queue's business."""
        self._lock = lock
        self._queue = queue
        self._takers: deque[Callable[[], None]] = deque()
        self._putters: deque[Putter] = deque()
        self.of_log: ref[Any] | None = None  # see `kvwal.structures.queue.waiting.takers_of`

    @property
    def takers(self) -> int:
        """How many takers wait."""
        return len(self._takers)

    @property
    def putters(self) -> int:
        """How many putters wait."""
        return len(self._putters)

    def expect(self, wake: Callable[[], None]) -> None:
        """Register a taker that waits: `wake`, which does not wait and raises nothing, is called once, when it is its turn."""
        with self._lock:
            self._takers.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Take a taker off. If it was woken already, the next one is woken in its place."""
        with self._lock:
            if wake in self._takers:
                self._takers.remove(wake)
                return
        self.wake_takers()

    def wake_takers(self) -> None:
        """Wake as many takers as there are items: after a group was applied, and after items came back."""
        if not self._takers:
            return
        items = self._queue.count()
        with self._lock:
            woken = [self._takers.popleft() for _ in range(min(items, len(self._takers)))]
        for wake in woken:
            wake()
        if self._queue.next_due and self.of_log is not None and (takers := self.of_log()) is not None:
            takers.set_alarm()

    def expect_room(self, putter: Putter) -> None:
        """Register a putter that waits. It is woken once, when it has room, or would wait in vain."""
        with self._lock:
            self._putters.append(putter)

    def forget_putter(self, putter: Putter) -> None:
        """Take a putter off. The next one is woken in its place, if it has room: it may have stood behind this one."""
        with self._lock, suppress(ValueError):  # it may have been woken before
            self._putters.remove(putter)
        self.wake_putters()

    def wake_putters(self) -> None:
        """Wake the putters that have room: after a group was applied."""
        if not self._putters:
            return
        there = self._queue.room
        with self._lock:
            woken = self.next_putters(there)
        for putter in woken:
            putter.wake()

    def next_putters(self, there: Room) -> list[Putter]:
        """Take off the putters to wake, where `there` is the room that all items take: those that have room, one after the other,
        and those that would wait in vain, because they need more than the capacity. Called with the lock held.
        """
        options = self._queue.options
        woken: list[Putter] = []
        while self._putters:
            needs = self._putters[0].needs
            if not needs.within(options):
                woken.append(self._putters.popleft())
                continue
            there = there.plus(needs)
            if not there.within(options):
                break
            woken.append(self._putters.popleft())
        return woken

    def wake_all(self) -> None:
        """Wake all takers and putters: the log takes no more writes."""
        with self._lock:
            woken, self._takers = list(self._takers), deque()
            woken += [putter.wake for putter in self._putters]
            self._putters.clear()
        for wake in woken:
            wake()
