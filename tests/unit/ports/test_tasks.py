"""The port to threads: a call outlives the task that waits for it."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

from kvwal.ports.tasks import ThreadWorkers


def test_a_call_that_fails_when_nobody_waits_any_more_says_nothing() -> None:
    """It ends before its task does: what it used may be let go of then."""
    began, go = threading.Event(), threading.Event()
    ended: list[str] = []

    def call() -> None:
        began.set()
        go.wait()
        ended.append("call")
        raise OSError("nobody hears of it")

    async def main() -> list[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        complaints: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        workers = ThreadWorkers("test", 1)
        waiting = loop.create_task(workers.run(call))
        await loop.run_in_executor(None, began.wait)
        waiting.cancel()
        loop.call_soon(go.set)
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert ended == ["call"]
        del waiting
        gc.collect()
        workers.close()
        return complaints

    assert asyncio.run(main()) == []
