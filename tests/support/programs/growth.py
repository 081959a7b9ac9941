"""A process that uses stores for a long time in every way, and measures after each round whether anything of it stays behind.

    python -m tests.support.programs.growth SECONDS

A round opens a store, synchronous and asynchronous in turn, writes groups over rotation, checkpoints, archiving and reads of the
past, and closes it. The archiver does its jobs in this process, so that what it leaves behind is measured too.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow

import kvwal
from kvwal import aio
from kvwal.store.sync import WritableStore
from tests.support.archive.archiver import InProcess
from tests.support.chance import new_seed
from tests.support.disk.faults import make_options

SETTINGS = kvwal.Settings(segment_bytes=64 << 10)
GROUPS = 60
KEYS = 200
VALUE = 1500
ROUNDS_ON_ONE_ROOT = 5
WARM_ROUNDS = 10
"""Rounds that fill caches and pools; nothing is compared with them."""
BUSINESSES = ("jobs", "runs")


class Measured(NamedTuple):
    """What the process holds after a round. `rss` is bytes; `objects` are those that Python's collector knows."""

    round: int
    groups: int
    rss: int
    objects: int
    descriptors: int
    threads: int
    children: int


def options(root: Path) -> Any:
    """A store with an archive, whose archiver is in this process."""
    return make_options(
        root / "root", archive=root / "archive", settings=SETTINGS, start_archiver=lambda: InProcess("kvwal.archiver")
    )


def blocking_round(root: Path, chance: random.Random) -> None:
    """A round on the synchronous store: two threads, a business each."""

    def write(name: str) -> None:
        jobs = store.map(name)
        for number in range(GROUPS):
            key = chance.randrange(KEYS)
            stamp = jobs.put_many({key + part: bytes(VALUE) for part in range(3)})
            jobs.put("expiring", number, ttl=0.001)
            jobs.replace("count", jobs.setdefault("count", 0), number)
            if number % 20 == 0:
                jobs.history(key)
                len(jobs.at(stamp))
                sum(1 for _ in jobs.scan())

    with WritableStore(options(root)) as store:
        threads = [threading.Thread(target=write, args=(name,)) for name in BUSINESSES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.checkpoint()
        store.archive()
        store.stats()


def waiting_round(root: Path, chance: random.Random) -> None:
    """A round on the asynchronous store: tasks, some of them cancelled, and an event loop that ends with it."""

    async def write(jobs: aio.Map, number: int) -> None:
        key = chance.randrange(KEYS)
        await jobs.put_many({key + part: bytes(VALUE) for part in range(3)})
        if number % 20 == 0:
            await jobs.history(key)

    async def main() -> None:
        async with aio.Store(options(root)) as store:
            for name in BUSINESSES:
                jobs = store.map(name)
                await jobs.count()
                for _ in range(GROUPS // 4):
                    tasks = [asyncio.create_task(write(jobs, number)) for number in range(8)]
                    await asyncio.sleep(0)
                    tasks[chance.randrange(8)].cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
            await store.checkpoint()
            await store.archive()
            assert len(asyncio.all_tasks()) <= 5, asyncio.all_tasks()

    asyncio.run(main())


def trim() -> None:
    """Have Arrow and glibc give back the memory that is free. Another C library keeps it."""
    pyarrow.default_memory_pool().release_unused()
    if (malloc_trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        malloc_trim(0)


def measure(number: int) -> Measured:
    """What is there now, garbage collected, and without what the allocator keeps for later: that goes up and down by 20 MB."""
    gc.collect()
    trim()
    me = psutil.Process()
    children = len(me.children(recursive=True))
    groups = number * 2 * GROUPS
    return Measured(
        number, groups, me.memory_info().rss, len(gc.get_objects()), me.num_fds(), threading.active_count(), children
    )


def rounds(seed: int) -> Iterator[Measured]:
    """Rounds without end, a new root every few of them."""
    chance = random.Random(seed)
    number = 0
    while True:
        root = Path(tempfile.mkdtemp(prefix="kvwal-growth-"))
        try:
            for _ in range(ROUNDS_ON_ONE_ROOT):
                number += 1
                (blocking_round if number % 2 else waiting_round)(root, chance)
                yield measure(number)
        finally:
            shutil.rmtree(root)


class Trend(NamedTuple):
    """What the last third of the rounds holds more than the first third, by the median of each."""

    rss: float
    objects: float
    descriptors: float
    threads: float
    children: float


def trend(measured: list[Measured]) -> Trend:
    """Of the rounds after the warm ones."""
    kept = measured[WARM_ROUNDS:]
    third = len(kept) // 3

    def grown(name: str) -> float:
        values = [getattr(one, name) for one in kept]
        return statistics.median(values[-third:]) - statistics.median(values[:third])

    return Trend(*map(grown, Trend._fields))


def main() -> None:
    """Run for so many seconds, print every tenth round and the trend."""
    end = time.monotonic() + float(sys.argv[1])
    measured: list[Measured] = []
    for one in rounds(new_seed()):
        measured.append(one)
        if one.round % 10 == 0:
            print(*(f"{name} {value:,}" for name, value in one._asdict().items()), sep=" · ", flush=True)
        if time.monotonic() > end and len(measured) >= WARM_ROUNDS + 3:
            break
    print("trend:", *(f"{name} {value:+,.0f}" for name, value in trend(measured)._asdict().items()), sep=" · ")


if __name__ == "__main__":
    main()
