"""The wait of a client for an item: a request waits at the member for a while, and then the client asks again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kvwal.client.queues.calls import QueueCalls
from kvwal.cluster.queues.requests import Await
from kvwal.ports.clock import SYSTEM
from kvwal.ports.locks import Signal
from kvwal.structures.queue.waiting import checked_timeout

T = TypeVar("T")

AWAIT_SECONDS = 0.5
PAUSE_SECONDS = 0.05
"""Between two requests of a taker that finds nothing: a member answers at once if many takers wait."""


def awaited(calls: QueueCalls, structure: str, take: Callable[[], list[T]], timeout: float | None) -> list[T]:
    """What `take` gives, once that is something. Waits at most `timeout` seconds (None: without end); then an empty list."""
    timeout = checked_timeout(timeout)
    begun = SYSTEM.elapsed()
    while not (items := take()):
        if not _is_there(calls, structure, None if timeout is None else begun + timeout):
            return []
    return items


def _is_there(calls: QueueCalls, structure: str, until: float | None) -> bool:
    """Wait until an item can be taken, or until a time of the monotonic clock. Returns whether one can be."""
    never = Signal()
    while True:
        asked = SYSTEM.elapsed()
        left = AWAIT_SECONDS if until is None else until - asked
        if left <= 0:
            return False
        if calls.ask(Await(calls.map, structure, min(left, AWAIT_SECONDS)), writes=False):
            return True
        never.wait(max(0.0, min(left, PAUSE_SECONDS) - (SYSTEM.elapsed() - asked)))
