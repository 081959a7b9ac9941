"""Many puts in flight on one event loop, written by group commit."""

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
TARGETS = {32: 8, 1_000: 25}
"""By the number of puts in flight: at least so many times the bare loop."""


async def put_all(root: Path, in_flight: int, count: int) -> float:
    """Puts a second of `count` durable puts of 100 bytes by `in_flight` coroutines."""
    async with kvwal.aio.open(root, archive=None) as store:
        puts = store.map("bench")
        value = b"x" * 100

        async def produce(first: int) -> None:
            for key in range(first, count, in_flight):
                await puts.put(f"{key:08d}", value)

        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.gather(*(produce(first) for first in range(in_flight)))
        return count / (loop.time() - started)


def measure(run: Run) -> list[Row]:
    """A row for each number of puts in flight: puts a second beside those of the bare loop."""
    rows = []
    for in_flight, target in TARGETS.items():
        count = run.size(50_000 if in_flight < 100 else 200_000, 3_000)
        baselines, ours = run.interleave(
            5,
            lambda: bare_appends(run.folder, run.size(15, 1) / 10),
            lambda in_flight=in_flight, count=count: asyncio.run(put_all(run.root(), in_flight, count)),  # type: ignore[misc]
        )
        name = f"{in_flight:,} puts in flight (kvwal.aio, sync)"
        rows.append(ratio_row(name, "puts/s", baselines, ours, "at least", target))
    return rows
