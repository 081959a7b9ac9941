"""What runs in a process of its own: one engine under one workload. benchmarks.child calls these functions by name."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import kvwal
from benchmarks.harness import peak_memory, percentile
from benchmarks.peers.engines.base import Engine, Opening
from benchmarks.peers.engines.opening import open_engine
from benchmarks.peers.mixes import Mixer

POOL = 1 << 20
IDLE = kvwal.Settings(checkpoint_seconds=1e9, archive_seconds=1e9, checkpoint_bytes=1 << 50)
"""A store whose maintenance does nothing by itself."""


class Values:
    """Values of one size: each is another part of the same random bytes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._pool = os.urandom(size + POOL)

    def at(self, number: int) -> bytes:
        """The value of a number."""
        start = number * 7_919 % POOL
        return self._pool[start : start + self._size]

    def entries(self, producer: int, first: int, count: int) -> dict[str, bytes]:
        """The entries of one transaction: new keys of eleven letters."""
        base = 10_000_000_000 + producer * 100_000_000
        return {str(base + number): self.at(number) for number in range(first, first + count)}


class Clock:
    """When to begin to count, and when to stop."""

    def __init__(self) -> None:
        self.counting = False
        self.stopped = False


def figures(count: int, seconds: float, waits: list[float]) -> dict[str, float]:
    """The rate, and how long a transaction took in milliseconds."""
    waits = waits or [0.0]
    shares = {"p50": 50.0, "p99": 99.0, "p999": 99.9}
    latency = {name: percentile(waits, share) * 1e3 for name, share in shares.items()}
    return {"rate": count / seconds, **latency, "max": max(waits) * 1e3, "memory": peak_memory()}


def timed(operation: Callable[[int, int], int], producers: int, seconds: float, warm_up: float) -> dict[str, float]:
    """`operation(producer, turn)` from threads for a time; it returns how many it did. What ran before does not count."""
    clock = Clock()
    done = [0] * producers
    waits: list[list[float]] = [[] for _ in range(producers)]
    failed: list[BaseException] = []

    def produce(producer: int) -> None:
        mine, turn = waits[producer], 0
        try:
            while not clock.stopped:
                begun = time.perf_counter()
                many = operation(producer, turn)
                turn += 1
                if clock.counting and not clock.stopped:
                    done[producer] += many
                    mine.append(time.perf_counter() - begun)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=produce, args=(producer,)) for producer in range(producers)]
    for thread in threads:
        thread.start()
    time.sleep(warm_up)
    clock.counting, started = True, time.perf_counter()
    time.sleep(seconds)
    while not any(done) and not failed:  # a disk that stalls for the whole time: the first transaction ends it
        time.sleep(0.01)
    clock.stopped, elapsed = True, time.perf_counter() - started
    count = sum(done)
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return figures(count, elapsed, [wait for mine in waits for wait in mine])


def puts(
    name: str, folder: str, port: int, producers: int, batch: int, value: int, seconds: float, warm_up: float
) -> dict[str, float]:
    """Transactions of new keys from threads, each after the acknowledgement of the one before."""
    engine = open_engine(name, Opening(Path(folder), port))
    values = Values(value)

    def operation(producer: int, turn: int) -> int:
        engine.put(values.entries(producer, turn * batch, batch))
        return batch

    try:
        return timed(operation, producers, seconds, warm_up)
    finally:
        engine.close()


def puts_on_own_maps(folder: str, producers: int, value: int, seconds: float, warm_up: float) -> dict[str, float]:
    """kvwal, with a map for each thread: as many logs as threads."""
    values = Values(value)
    with kvwal.open(folder, archive=None) as store:
        maps = [store.map(f"bench-{number}") for number in range(producers)]

        def operation(producer: int, turn: int) -> int:
            maps[producer].put(str(turn), values.at(turn))
            return 1

        return timed(operation, producers, seconds, warm_up)


def queue(folder: str, producers: int, batch: int, value: int, seconds: float, warm_up: float) -> dict[str, float]:
    """A queue of kvwal: each thread puts items in one transaction, and takes as many in the next one."""
    values = Values(value)
    with kvwal.open(folder, archive=None) as store:
        target = store.queue("bench")

        def operation(producer: int, turn: int) -> int:
            target.put_many([values.at(turn * batch + number) for number in range(batch)])
            target.take_many(batch)
            return batch

        return timed(operation, producers, seconds, warm_up)


def moves(folder: str, batch: int, records: int, value: int, seconds: float, warm_up: float) -> dict[str, float]:
    """Records of a map that move from queue to queue of kvwal, each with a change of its value, `batch` in a transaction."""
    values = Values(value)
    with kvwal.open(folder, archive=None) as store:
        business = store.business("flow")
        business.map("records").put_many((number, values.at(number)) for number in range(records))
        business.queue("one").put_many(range(records))

        def operation(producer: int, turn: int) -> int:
            begin, end = ("one", "other") if turn * batch // records % 2 == 0 else ("other", "one")
            with business.transaction() as t:
                moved = t.queue(begin).take_many(batch)
                t.queue(end).put_many(moved)
                changed = t.map("records")
                for number in moved:
                    changed[number] = values.at(turn + number)
            return len(moved)

        return timed(operation, 1, seconds, warm_up)


def queue_tasks(folder: str, producers: int, value: int, seconds: float, warm_up: float) -> dict[str, float]:
    """A queue of kvwal.aio: each task puts an item and takes one, each in a transaction of its own."""
    return asyncio.run(_queue_tasks(folder, producers, Values(value), seconds, warm_up))


async def _queue_tasks(folder: str, producers: int, values: Values, seconds: float, warm_up: float) -> dict[str, float]:
    async with kvwal.aio.open(folder, archive=None) as store:
        target = store.queue("bench")

        async def operation(producer: int, turn: int) -> None:
            await target.put(values.at(turn))
            await target.take()

        return await timed_tasks(operation, producers, seconds, warm_up)


def tasks(folder: str, producers: int, value: int, seconds: float, warm_up: float) -> dict[str, float]:
    """kvwal.aio, with so many tasks that each wait for their own put."""
    return asyncio.run(_tasks(folder, producers, Values(value), seconds, warm_up))


async def _tasks(folder: str, producers: int, values: Values, seconds: float, warm_up: float) -> dict[str, float]:
    async with kvwal.aio.open(folder, archive=None) as store:
        target = store.map("bench")

        async def operation(producer: int, turn: int) -> None:
            await target.put(str(10_000_000_000 + producer * 10_000_000 + turn), values.at(turn))

        return await timed_tasks(operation, producers, seconds, warm_up)


async def timed_tasks(
    operation: Callable[[int, int], Awaitable[None]], producers: int, seconds: float, warm_up: float
) -> dict[str, float]:
    """`operation(producer, turn)` from tasks for a time. What ran before does not count."""
    clock, done, waits = Clock(), [0] * producers, list[float]()

    async def produce(producer: int) -> None:
        turn = 0
        while not clock.stopped:
            begun = time.perf_counter()
            await operation(producer, turn)
            turn += 1
            if clock.counting and not clock.stopped:
                done[producer] += 1
                waits.append(time.perf_counter() - begun)

    running = asyncio.gather(*(produce(producer) for producer in range(producers)))
    await asyncio.sleep(warm_up)
    clock.counting, started = True, time.perf_counter()
    await asyncio.sleep(seconds)
    clock.stopped, elapsed = True, time.perf_counter() - started
    count = sum(done)
    await running
    return figures(count, elapsed, waits)


def fill(name: str, folder: str, port: int, count: int, batch: int, value: int) -> dict[str, float]:
    """`count` new keys from one producer, and the store closed in order."""
    engine = open_engine(name, Opening(Path(folder), port))
    values = Values(value)
    started = time.perf_counter()
    for first in range(0, count, batch):
        engine.put(values.entries(0, first, min(batch, count - first)))
    seconds = time.perf_counter() - started
    engine.close()
    return {"count": count, "seconds": seconds}


def recover(name: str, folder: str, port: int) -> dict[str, float]:
    """Open what `fill` left, and read all of it once."""
    started = time.perf_counter()
    engine = open_engine(name, Opening(Path(folder), port))
    count = engine.count()
    seconds = time.perf_counter() - started
    engine.close()
    return {"count": count, "seconds": seconds, "memory": peak_memory()}


def fill_queue(folder: str, count: int, batch: int, value: int, snapshot: bool) -> dict[str, float]:
    """`count` items in a queue of kvwal from one producer, with or without a snapshot of them, and the store closed in order."""
    values = Values(value)
    with kvwal.open(folder, archive=None, settings=IDLE) as store:
        target = store.queue("bench")
        for first in range(0, count, batch):
            target.put_many([values.at(number) for number in range(first, min(count, first + batch))])
        if snapshot:
            store.checkpoint()
        return {"count": len(target)}


def open_queue(folder: str) -> dict[str, float]:
    """Open what `fill_queue` left, until the queue can be taken from."""
    started = time.perf_counter()
    with kvwal.open(folder, archive=None, settings=IDLE) as store:
        target = store.queue("bench")
        count = len(target)
        seconds = time.perf_counter() - started
        return {"count": count, "seconds": seconds, "memory": peak_memory()}


def mix(name: str, folder: str, port: int, arguments: dict[str, Any]) -> dict[str, float]:
    """A workload of YCSB: records loaded first, then a time of its mix from threads."""
    engine = open_engine(name, Opening(Path(folder), port))
    mixer = Mixer(engine, arguments["mix"], arguments["records"], Values(arguments["value"]).at)
    mixer.load()
    try:
        return timed(mixer.operation, arguments["threads"], arguments["seconds"], arguments["warm_up"])
    finally:
        engine.close()


def deletes(name: str, folder: str, port: int, count: int, threads: int) -> dict[str, float]:
    """`count` durable deletes from threads, of keys put before."""
    engine, values = open_engine(name, Opening(Path(folder), port)), Values(100)
    for first in range(0, count, 1_000):
        engine.put({str(number): values.at(number) for number in range(first, min(count, first + 1_000))})

    def work(first: int) -> None:
        for number in range(first, count, threads):
            engine.delete(str(number))

    seconds = together(work, threads)
    left = engine.count()
    engine.close()
    if left:
        raise AssertionError(f"{left} of {count} keys are still there")
    return {"rate": count / seconds}


def expiring(name: str, folder: str, port: int, count: int, threads: int) -> dict[str, float]:
    """`count` durable puts with a time to live, from threads."""
    engine, values = open_engine(name, Opening(Path(folder), port)), Values(100)

    def work(first: int) -> None:
        for number in range(first, count, threads):
            engine.put_for(str(number), values.at(number), 3_600)

    seconds = together(work, threads)
    engine.close()
    return {"rate": count / seconds}


def together(work: Callable[[int], None], threads: int) -> float:
    """Seconds until `work(0)` to `work(threads - 1)` are all done."""
    running = [threading.Thread(target=work, args=(first,)) for first in range(threads)]
    started = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return time.perf_counter() - started


def overwrite(name: str, folder: str, port: int, keys: int, versions: int) -> dict[str, float]:
    """Every key written `versions` times with a JSON of about 100 bytes, then compacted and closed."""
    engine: Engine = open_engine(name, Opening(Path(folder), port), archived=True)
    chance = Random(7)
    for version in range(versions):
        for first in range(0, keys, 1_000):
            engine.put({f"job-{key:08d}": job(chance, version) for key in range(first, min(keys, first + 1_000))})
    engine.compact()
    count = engine.count()
    engine.close()
    return {"count": count}


def job(chance: Random, version: int) -> bytes:
    """What a Spark driver might store of a job."""
    ended = 1_700_000_000_000 + chance.randrange(10**9)
    return (
        f'{{"state":"SUCCEEDED","attempt":{version},"stages":{chance.randrange(9)},"ended":{ended},'
        f'"tasks":{chance.randrange(10**4)},"id":"{chance.randrange(16**12):012x}"}}'
    ).encode()
