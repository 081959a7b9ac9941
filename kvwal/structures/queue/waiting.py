"""The wait of a taker for an item: it is woken when there may be one for it, and when the log takes no more writes."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from weakref import ref

from kvwal.errors import ConfigError
from kvwal.ports.locks import Signal
from kvwal.structures.business import LocalBusiness
from kvwal.structures.queue.state import QueueState

T = TypeVar("T")


class TakersOfLog:
    """Wakes the takers of one queue after each group of its log, and all of them once the log takes no more writes.

    All handles of a queue share one (`takers_of`): two would wake two takers for one item.
    """

    def __init__(self, business: LocalBusiness, state: QueueState) -> None:
        self.state = state
        self._business = business
        business.subscribe(self._wake)

    @property
    def may_take(self) -> bool:
        """Whether a take may find an item, or is refused. A taker that asks after `expect` misses no item and no end."""
        return self.state.count() > 0 or self._business.refuses_writes

    def rounds(self, timeout: float | None) -> Iterator[float | None]:
        """The seconds that are left, before each wait of a taker that waits at most `timeout` seconds (None: without end)."""
        now = self._business.elapsed
        left, end = timeout, now() + (timeout or 0)
        while left is None or left > 0:
            yield left
            left = None if timeout is None else end - now()  # `timeout - (now() - begun)` may stay a hair above 0

    def _wake(self) -> None:
        if self._business.refuses_writes:
            self.state.wake_all()
        else:
            self.state.wake_takers()


def takers_of(business: LocalBusiness, state: QueueState) -> TakersOfLog:
    """The takers of a queue of this business. They live as long as a handle of the queue."""
    takers: TakersOfLog | None = None if state.takers is None else state.takers()
    if takers is None:
        takers = TakersOfLog(business, state)
        state.takers = ref(takers)
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
        takers.state.expect(signal.set)
        try:
            if takers.may_take and (items := take()):
                return items
            woken = signal.wait(left)
        finally:
            if not woken:
                takers.state.forget(signal.set)
    return take() if takers.may_take else []


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
