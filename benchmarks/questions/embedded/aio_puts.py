"""A thousand puts in flight on one event loop, written by group commit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import kvwal
from benchmarks.baselines import bare_appends
from benchmarks.harness import Question, Row, Run, ratio_row

QUESTION = Question(
    "aio_puts",
    "How fast are a thousand puts in flight?",
    "a bare loop that appends 140 bytes to a growing file and calls fdatasync, once a put.",
    "opening and closing the store.",
)
IN_FLIGHT = 1_000


async def put_all(root: Path, count: int) -> float:
    """Puts a second of `count` durable puts of 100 bytes by a thousand coroutines."""
    async with kvwal.aio.open(root, archive=None) as store:
        puts = store.map("bench")
        value = b"x" * 100

        async def produce(first: int) -> None:
            for key in range(first, count, IN_FLIGHT):
                await puts.put(f"{key:08d}", value)

        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.gather(*(produce(first) for first in range(IN_FLIGHT)))
        return count / (loop.time() - started)


def measure(run: Run) -> list[Row]:
    """One row: puts a second beside those of the bare loop."""
    count = run.size(200_000, 3_000)
    baselines, ours = run.interleave(
        5, lambda: bare_appends(run.folder, run.size(15, 1) / 10), lambda: asyncio.run(put_all(run.root(), count))
    )
    return [ratio_row("1,000 puts in flight (kvwal.aio, sync)", "puts/s", baselines, ours, "at least", 25)]
