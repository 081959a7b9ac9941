"""Many threads that begin a call together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

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
