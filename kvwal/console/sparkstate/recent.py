"""A value made from the location that is a second or two old, and made anew in the background while requests ask for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from kvwal.console.shared_reader import SharedReader, View
from kvwal.ports.boundary import contain
from kvwal.ports.clock import Clock
from kvwal.ports.locks import Lock
from kvwal.ports.tasks import Helper

T = TypeVar("T")
FRESH_SECONDS = 1.0
"""Age from which a value is made anew."""
MOST_SECONDS = 2.0
"""Age from which a value serves no request: the request makes it anew, and others wait for it."""


class _Made(NamedTuple, Generic[T]):
    value: T
    at: float


class Recent(Generic[T]):
    """One value for all requests. Threads share it."""

    def __init__(self, reads: SharedReader, clock: Clock, make: Callable[[View], T]) -> None:
        """`make` makes the value."""
        self._reads = reads
        self._helper = Helper("kvwal-console-recent")
        self._clock = clock
        self._make = make
        self._lock = Lock()
        self._making = Lock()
        self._made: _Made[T] | None = None
        self._is_renewed = False

    def value(self, view: View) -> T:
        """The value, at most `MOST_SECONDS` old."""
        with self._lock:
            made = self._made
            age = MOST_SECONDS if made is None else self._clock.elapsed() - made.at
            renews = FRESH_SECONDS < age < MOST_SECONDS and not self._is_renewed
            self._is_renewed |= renews
        if made is None or age >= MOST_SECONDS:
            return self._newer_than(made, view)
        if renews and not self._helper.begin(self._renew):
            self._end_renewal()
        return made.value

    def _newer_than(self, old: _Made[T] | None, view: View) -> T:
        """A value that is newer: of the request that makes it, for all that wait."""
        with self._making:
            made = self._made
            if made is None or made is old:
                made = self._store(view)
            return made.value

    def _store(self, view: View) -> _Made[T]:
        at = self._clock.elapsed()  # what is written while it is made may be missing
        made = self._made = _Made(self._make(view), at)
        return made

    def _renew(self) -> None:
        contain(partial(self._renew_in_view), _met_by_a_request)
        self._end_renewal()

    def _renew_in_view(self) -> None:
        with self._reads.view() as view:
            self._store(view)

    def _end_renewal(self) -> None:
        with self._lock:
            self._is_renewed = False


def _met_by_a_request(error: BaseException) -> None:
    """Nothing to do: the value gets too old, and the next request meets the error and tells it."""
