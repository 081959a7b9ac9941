"""Calls at once, and in between: threads that begin a call together, and a user that stands still while others go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
THREADS = 8


def at_once(call: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """The answers of `call` to each of so many threads, which begin together."""
    answers: list[Any] = [None] * threads
    begin = threading.Barrier(threads)

    def run(number: int) -> None:
        begin.wait()
        answers[number] = call(number)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return answers


class Standstill:
    """A user who stands still once, before or after its `step`-th call (from 0); `meanwhile` is what others do then."""

    def __init__(self, step: int, meanwhile: Callable[[], None], *, after: bool) -> None:
        self._step = step
        self._meanwhile = meanwhile
        self._after = after

    @property
    def is_over(self) -> bool:
        """Whether it stood still."""
        return self._step < 0

    def call(self, work: Callable[[], T]) -> T:
        """One step of the work."""
        self._step -= 1
        stands_still = self._step == -1
        if stands_still and not self._after:
            self._meanwhile()
        answer = work()
        if stands_still and self._after:
            self._meanwhile()
        return answer
