"""The waits of takers for items, and of putters for room: they are woken when there may be some, and when the log takes no more
writes.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar
from weakref import ref

from kvwal.errors import ConfigError, QueueFull
from kvwal.ports.locks import Signal
from kvwal.structures.business import LocalBusiness
from kvwal.structures.queue.capacity import Room
from kvwal.structures.queue.state import QueueState
from kvwal.structures.queue.waiters import Putter

T = TypeVar("T")


class TakersOfLog:
    """Wakes the takers of one queue after each group of its log, and all of them once the log takes no more writes.

    All handles of a queue share one (`takers_of`): two would wake two takers for one item.
    """

    def __init__(self, business: LocalBusiness, state: QueueState) -> None:
        self.state = state
        self._business = business
        self._alarm_ms = 0
        business.subscribe(self._wake)

    @property
    def may_take(self) -> bool:
        """Whether a take may find an item, or is refused. A taker that asks after `expect` misses no item and no end."""
        return self.state.count() > 0 or self._business.refuses_writes

    def may_put(self, needs: Room) -> bool:
        """Whether a put may have room, or is refused. A putter that asks after `expect_room` misses no room and no end."""
        state = self.state
        if self._business.refuses_writes or not needs.within(state.options):
            return True
        return state.room.plus(needs).within(state.options)

    def set_alarm(self) -> None:
        """Wake takers when the next delayed item is due, if one is delayed and a taker waits."""
        state = self.state
        due = state.next_due if state.waiters.takers else 0
        if due and (not self._alarm_ms or due < self._alarm_ms):
            self._alarm_ms = due
            seconds = max(1, due - self._business.now_ms()) / 1000
            self._business.call_after(seconds, partial(_ring, ref(self)))

    def ring(self) -> None:
        """The alarm: an item may be due."""
        self._alarm_ms = 0
        self.state.waiters.wake_takers()

    def rounds(self, timeout: float | None) -> Iterator[float | None]:
        """The seconds that are left, before each wait of a taker that waits at most `timeout` seconds (None: without end)."""
        now = self._business.elapsed
        left, end = timeout, now() + (timeout or 0)
        while left is None or left > 0:
            yield left
            left = None if timeout is None else end - now()  # `timeout - (now() - begun)` may stay a hair above 0

    def _wake(self) -> None:
        if self._business.refuses_writes:
            self.state.waiters.wake_all()
        else:
            self.state.waiters.wake_takers()
            self.state.waiters.wake_putters()


def _ring(takers: ref[TakersOfLog]) -> None:
    """An alarm does not keep the takers of a queue alive."""
    if (living := takers()) is not None:
        living.ring()


def takers_of(business: LocalBusiness, state: QueueState) -> TakersOfLog:
    """The takers of a queue of this business. They live as long as a handle of the queue."""
    takers: TakersOfLog | None = None if state.waiters.of_log is None else state.waiters.of_log()
    if takers is None:
        takers = TakersOfLog(business, state)
        state.waiters.of_log = ref(takers)
    return takers


def taken_by(takers: TakersOfLog, take: Callable[[], list[T]], timeout: float | None) -> list[T]:
    """What `take` gives, once that is something. Waits at most `timeout` seconds (None: without end); then an empty list.

    A taker that was woken takes next. If its take fails, the take wakes another one (`QueueState.give_back`).
    """
    timeout = checked_timeout(timeout)
    if items := take():
        return items
    for left in takers.rounds(timeout):
        signal, woken = Signal(), False
        takers.state.waiters.expect(signal.set)
        takers.set_alarm()
        try:
            if takers.may_take and (items := take()):
                return items
            woken = signal.wait(left)
        finally:
            if not woken:
                takers.state.waiters.forget(signal.set)
    return take() if takers.may_take else []


def put_when_room(takers: TakersOfLog, put: Callable[[], T], needs: Room, timeout: float | None, full: QueueFull) -> T:
    """What `put` returns, once the queue has room. `put` was refused with `full`. Waits at most `timeout` seconds (None: without
    end), then `full` or a later refusal.
    """
    for left in takers.rounds(timeout):
        signal, woken = Signal(), False
        putter = Putter(signal.set, needs)
        takers.state.waiters.expect_room(putter)
        try:
            woken = not takers.may_put(needs) and signal.wait(left)
        finally:
            if not woken:
                takers.state.waiters.forget_putter(putter)
        if not woken and not takers.may_put(needs):
            break
        try:
            return put()
        except QueueFull as error:
            full = error
        except BaseException:
            takers.state.waiters.wake_putters()
            raise
    raise full


def checked_timeout(timeout: Any) -> float | None:
    """`timeout`, if it is one. Raises `ConfigError`."""
    if timeout is None:
        return None
    if isinstance(timeout, int | float) and type(timeout) is not bool and timeout >= 0:
        return timeout
    raise ConfigError(
        f"timeout={timeout!r} must be a number of seconds, 0 for no wait, or None for a wait without end."
    )


def first_of(items: Iterable[T], name: str) -> T:
    """The first of these items of the queue `name`. `queue.Empty` if there is none."""
    for item in items:
        return item
    raise queue.Empty(f"{name}: there is no item to take.")
