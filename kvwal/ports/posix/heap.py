"""The heap of the C library, which by default has a part for each thread that asks for memory."""

from __future__ import annotations

_M_ARENA_MAX = -8
"""The parameter of glibc's `mallopt` for the number of parts; see mallopt(3)."""


def share_heap() -> bool:
    """Have all threads that start from now on share one part of the heap. False if the C library has no such setting.

    A thread frees what another one has allocated into that one's part, where only that one finds it again. So a process whose
    threads make large answers in turn grows for hours. Python's threads ask for memory one at a time, so nobody waits for it.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_ARENA_MAX, 1) == 1
