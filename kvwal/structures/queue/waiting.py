"""The wait of a taker for an item: it is woken when there may be one for it, and when the log takes no more writes."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any, TypeVar

from kvwal.errors import ConfigError
from kvwal.ports.locks import Signal
from kvwal.structures.business import LocalBusiness
from kvwal.structures.queue.state import QueueState

T = TypeVar("T")


class TakersOfLog:
    """Wakes the takers of one queue after each group of its log, and all of them once the log takes no more writes."""

    def __init__(self, business: LocalBusiness, state: QueueState) -> None:
        self._business = business
        self._state = state
        business.subscribe(self._wake)

    def _wake(self) -> None:
        if self._business.refuses_writes:
            self._state.wake_all()
        else:
            self._state.wake_takers()


def taken_by(
    state: QueueState, take: Callable[[], list[T]], timeout: float | None, now: Callable[[], float], name: str
) -> list[T]:
    """What `take` gives, once that is something. Waits at most `timeout` seconds (None: without end), then `queue.Empty`.

    `now` is a monotonic clock, in seconds.
    """
    left = timeout = checked_timeout(timeout)
    if items := take():
        return items
    begun = now()
    while left is None or left > 0:
        signal = Signal()
        state.expect(signal.set)
        try:
            if items := take():
                return items
            signal.wait(left)
        finally:
            state.forget(signal.set)
        left = None if timeout is None else timeout - (now() - begun)
    if items := take():
        return items
    raise nothing_in(name)


def checked_timeout(timeout: Any) -> float | None:
    """`timeout`, if it is one. Raises `ConfigError`."""
    if timeout is None:
        return None
    if isinstance(timeout, int | float) and type(timeout) is not bool and timeout >= 0:
        return timeout
    raise ConfigError(
        f"timeout={timeout!r} must be a number of seconds, 0 for no wait, or None for a wait without end."
    )


def nothing_in(name: str) -> queue.Empty:
    """The error of a queue without an item to take."""
    return queue.Empty(f"{name}: there is no item to take.")
