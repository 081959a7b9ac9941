"""An asynchronous store whose calls on threads are some steps of its event loop: what a task meets at each step is the same in
every run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
STEPS = 3
"""How many steps of the loop a call takes."""


class StepWorkers:
    """In place of `kvwal.ports.tasks.ThreadWorkers`: calls are made on the loop, after some steps."""

    def __init__(self, name: str, threads: int = 4, *, own_loop: bool = False) -> None:
        self.logs = 0

    async def run(self, call: Callable[[], T]) -> T:
        """Make the call."""
        await steps(STEPS)
        return call()

    commit = run

    def begin(self, call: Callable[[], None]) -> bool:
        """There is no other thread."""
        return False

    def close(self) -> None:
        """Nothing to do."""


async def steps(number: int) -> None:
    """Let so many steps of the loop pass."""
    for _ in range(number):
        await asyncio.sleep(0)


async def cancelled_after(task: asyncio.Task[Any], number: int, *more: int) -> bool:
    """Cancel a task after so many steps, and again after each of `more`, and wait for its end. False if it had ended before."""
    await steps(number)
    if not task.cancel():
        return False
    for again in more:
        await steps(again)
        task.cancel()
    await asyncio.wait([task])
    return True
