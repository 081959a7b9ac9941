"""Port of locks between threads. It is apart from `tasks`, so that programs that only read do not wait for asyncio to load."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

Lock = threading.Lock

RLock = threading.RLock
"""A lock that its own thread may take again: in a signal handler, or in a finalizer that garbage collection calls."""

Semaphore = threading.Semaphore
"""A counting semaphore of the standard library."""

Signal = threading.Event
"""An event of the standard library: one thread waits until another one sets it."""


def signals_arrive_here() -> bool:
    """Whether this is the thread on which Python runs signal handlers. A handler may run between any two steps, and raise."""
    return threading.get_ident() == threading.main_thread().ident


interpreter_ends = sys.is_finalizing
"""Whether the interpreter ends: this is the only thread that still runs, in finalizers, and must wait for no other."""

_ROOM = 100
"""How many more calls than half of Python's limit there must be room for. Half, because a call through C may count twice."""


def has_room() -> bool:
    """Whether the stack of this thread has room for some hundred more calls."""
    try:
        sys._getframe(max(0, sys.getrecursionlimit() // 2 - _ROOM))
    except ValueError:
        return True
    return False


_SHORT_TURN_SECONDS = 500e-6


@contextmanager
def short_turns() -> Iterator[None]:
    """Have the threads of the process take turns of half a millisecond meanwhile, for a long computation in the background: of
    one thread at a time.

    A thread gives the interpreter away with each read of a file, and gets it back only when the turn of the other one ends: after
    Python's 5 ms, each time. With short turns all the time a busy process does up to a tenth less.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SHORT_TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


_PAUSE_SECONDS = 50e-6


def give_way() -> None:
    """Yield the interpreter to other threads. Long computations call it now and then.

    Without it, a thread that waits for the interpreter gets it only after Python's switch interval of 5 ms, each time.
    """
    time.sleep(_PAUSE_SECONDS)
