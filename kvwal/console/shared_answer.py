"""An answer of the console that is made once for all who ask, and that serves them while the next one is made.

What a page needs from the whole store, as the list of applications or the graph of lineage, may take seconds to make while
twenty people ask and a recorder writes. So an answer that took long stays good for longer, nobody waits for the next one while
it does, and one that is being made when something is written is not begun again: it would never end.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

from kvwal.ports.clock import Clock
from kvwal.ports.locks import Lock

T = TypeVar("T")
FRESH_SECONDS = 1.0
"""Age up to which an answer that was made for one request serves others, too. Of one that took long see `SLOW_TIMES`."""
SLOW_TIMES = 10.0
"""An answer serves others for as many times as long as it took to make it, at least: a store that is written to all the time
costs no more than a tenth of a core for each such answer. A graph of 100,000 data sets takes almost a second. For as long again
it serves those who come while the next one is made.
"""
UNCHANGED_SECONDS = 60.0
"""Age up to which an answer serves others while no file of the store is written to, and nothing is put into the archive. Entries
with a ttl expire without a write. Then it is made anew, and others take it meanwhile, but none of twice that age.
"""
UNCHANGED_TIMES = 100.0
"""The same of an answer that took long: as many times as long as it took, but at most `LONGEST_SECONDS`."""
LONGEST_SECONDS = 600.0


class Source(NamedTuple):
    """What an answer is made from. `is_of_before`: read from an earlier state of the location than that of the generation.
    `known`: the last time at which it was up to date, on a clock that only counts seconds.
    """

    given: Any
    is_of_before: bool = False
    known: float = inf


class AtHand(NamedTuple, Generic[T]):
    """An answer for which nobody waits. `is_due`: the next one is to be made, and nobody is about it."""

    value: T
    is_due: bool


class _Made(NamedTuple, Generic[T]):
    """A value, the last time at which it was surely up to date, and how long it took to make it."""

    value: T
    known: float
    took: float

    @property
    def serves_for(self) -> float:
        """Seconds for which it serves although something was written; 0.0 if it was quick."""
        return SLOW_TIMES * self.took if self.took * SLOW_TIMES > FRESH_SECONDS else 0.0

    @property
    def unchanged_for(self) -> float:
        """Seconds for which it serves while nothing is written, because it took long."""
        return min(UNCHANGED_TIMES * self.took, LONGEST_SECONDS)


class SharedAnswer(Generic[T]):
    """A value that one thread makes, while others wait for it. If that fails, the next one that asks tries again.

    Where there is one from `before`, others do not wait: they take that until the time `before_until`.
    """

    def __init__(
        self, make: Callable[[Any], T], clock: Clock, before: _Made[T] | None = None, before_until: float = 0.0
    ) -> None:
        self._make = make
        self._clock = clock
        self._before = before
        self._before_until = before_until
        self._lock = Lock()
        self._made: _Made[T] | None = None
        self._began: float | None = None
        self._has_maker = False
        self._same_until = -inf
        self.is_of_before = False
        """Whether it is made from an earlier state of the location than that of the generation."""

    def at_hand(self) -> AtHand[T] | None:
        """The value, or that of before; None if the caller is to call `made`, and wait."""
        before = self._before  # first: the thread that makes the value removes that of before
        made = self._made
        if made is not None:
            return AtHand(made.value, False)
        if before is None or self._clock.elapsed() >= self._before_until:
            return None
        return AtHand(before.value, self._began is None and not self._has_maker)

    def made(self, take_source: Callable[[], Source]) -> T:
        """The value. It is made here, from what `take_source` returns, unless another thread makes it or has made it."""
        with self._lock:
            if self._made is None:
                self._began = self._clock.elapsed()
                try:
                    self._made = self._newly_made(take_source())
                    self._before = None
                finally:
                    self._began = None
            return self._made.value

    def _newly_made(self, source: Source) -> _Made[T]:
        began = self._clock.elapsed()
        value = self._make(source.given)
        if source.is_of_before:
            self.is_of_before = True
        return _Made(value, min(began, source.known), self._clock.elapsed() - began)

    @property
    def source(self) -> Source:
        """The value, which is made, as what others are made from."""
        made = self._made
        if made is None:
            raise ValueError("the value is not made")
        return Source(made.value, self.is_of_before, max(made.known, self._same_until))

    def appoint(self) -> bool:
        """Whether the caller is to have the value made in the background: nobody else has been told so. One thread at a time
        calls it.
        """
        is_first, self._has_maker = not self._has_maker, True
        return is_first

    def dismiss(self) -> None:
        """Have the next one that asks see to it that the value is made."""
        self._has_maker = False

    def fail(self) -> None:
        """Have the next one that asks make the value, because nobody can in the background: it is told why."""
        self._before_until = -inf

    def later(self, now: float, same_until: float) -> SharedAnswer[T] | None:
        """What stands for it when something was written after `same_until`: itself if it goes on serving, or if it has been in
        the making for so long that it will; one that is made anew; or None if it was quick, or is too old.
        """
        before, began = self._before, self._began  # first: both end when the value is there
        made = self._made
        if made is None:
            if began is not None:
                self.is_of_before = True
            if before is not None:
                until = max(before.known, same_until) + 2 * before.serves_for
                self._before_until = min(self._before_until, until)
            serves = before is not None and now < self._before_until
            will_serve = began is not None and now - began > FRESH_SECONDS / SLOW_TIMES
            return self if serves or will_serve else None
        if not (seconds := made.serves_for):
            return None
        if not self.is_of_before:
            self.is_of_before, self._same_until = True, same_until
        known = max(made.known, self._same_until)
        if now < known + seconds:
            return self
        until = known + 2 * seconds
        return SharedAnswer(self._make, self._clock, made, until) if now < until else None

    def again(self, now: float) -> SharedAnswer[T] | None:
        """What stands for it when nothing was written for a minute: the same, made anew while others take this one, or itself if
        it took long or is in the making. None if nobody has asked for it in that minute, or it is too old.
        """
        is_in_the_making = self._began is not None
        made = self._made
        if made is None:
            return self if is_in_the_making else None
        if now < made.known + made.unchanged_for:
            return self
        until = made.known + 2 * max(UNCHANGED_SECONDS, made.unchanged_for)
        return SharedAnswer(self._make, self._clock, made, until) if now < until else None
