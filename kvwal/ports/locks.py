"""The door to locks between threads. Apart from `tasks`, because those who only read must not wait for asyncio to load."""

from __future__ import annotations

import threading
import time

Lock = threading.Lock

Semaphore = threading.Semaphore
"""A number of places that threads take and give back."""


_TURN_SECONDS = 50e-6


def give_way() -> None:
    """Let other threads have the interpreter, as those that compute for long do now and then.

    A thread that waits for the interpreter would else have it only after Python's switch interval, 5 ms each time.
    """
    time.sleep(_TURN_SECONDS)
