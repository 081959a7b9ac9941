"""Waiting for what says so only when it is asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_S = 0.05
"""Between two questions: the awaited process needs the processor more than the waiting one."""


def until(look: Callable[[], T | None]) -> T:
    """What `look` finds, once it is not None."""
    while (found := look()) is None:
        time.sleep(POLL_S)
    return found
