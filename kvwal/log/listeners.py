"""Listeners of a log: who waits for its next entries is woken after each group, without a queue."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakMethod

from kvwal.ports.locks import Lock


class Listeners:
    """Callbacks of one log. The objects whose methods they are may be dropped at any time: they are not kept alive."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: tuple[WeakMethod[Callable[[], None]], ...] = ()

    def add(self, call: Callable[[], None]) -> None:
        """Call `call`, a bound method that does not wait and raises nothing, at each `wake`. From any thread."""
        with self._lock:
            living = tuple(known for known in self._calls if known() is not None)
            self._calls = (*living, WeakMethod(call))

    def wake(self) -> None:
        """Call all of them. On any thread that writes the log."""
        for known in self._calls:
            call = known()
            if call is not None:
                call()
