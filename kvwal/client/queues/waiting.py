"""The wait of a client for an item: a request waits at the member for a while, and then the client asks again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kvwal.client.queues.calls import QueueCalls
from kvwal.cluster.queues.requests import Await, AwaitRoom, Put
from kvwal.errors import QueueFull
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


def put_when_room(calls: QueueCalls, request: Put, timeout: float | None) -> int:
    """Put items once there is room, and return the timestamp. Waits at most `timeout` seconds (None: without end), then
    `QueueFull`.
    """
    timeout = checked_timeout(timeout)
    if not request.items:
        return 0
    begun, never = SYSTEM.elapsed(), Signal()
    while True:
        try:
            timestamp: int = calls.ask(request, writes=True)
        except QueueFull:
            asked = SYSTEM.elapsed()
            left = AWAIT_SECONDS if timeout is None else begun + timeout - asked
            if left <= 0:
                raise
            if not may_put(calls, request, min(left, AWAIT_SECONDS)):
                never.wait(max(0.0, min(left, PAUSE_SECONDS) - (SYSTEM.elapsed() - asked)))
        else:
            return timestamp


def may_put(calls: QueueCalls, request: Put, seconds: float) -> bool:
    """Whether there is room for a put, within some seconds; or there never is, as a put says."""
    size = sum(len(item.value) for item in request.items)
    asked = AwaitRoom(calls.map, request.items[0].structure, len(request.items), size, seconds)
    return bool(calls.ask(asked, writes=False))


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
