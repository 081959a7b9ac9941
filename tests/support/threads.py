"""Many threads that begin a call together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

THREADS = 8


def at_once(call: Callable[[int], Any]) -> list[Any]:
    """What `call` answers to each of THREADS threads that begin together."""
    answers: list[Any] = [None] * THREADS
    begin = threading.Barrier(THREADS)

    def run(number: int) -> None:
        begin.wait()
        answers[number] = call(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
