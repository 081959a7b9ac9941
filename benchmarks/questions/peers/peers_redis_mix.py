"""The mix of redis-benchmark: what its tests do to Redis, done to kvwal by kvwal.aio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import kvwal
from benchmarks.harness import Question, Row, Run, in_child
from benchmarks.peers import redis_benchmark, rounds
from benchmarks.peers.workloads import REDIS_CLIENTS, REDIS_MIX, REDIS_VALUE

QUESTION = Question(
    "peers_redis_mix",
    "How fast is the mix of redis-benchmark beside Redis?",
    "redis-benchmark with 50 clients against a Redis that syncs before it answers: a server, a socket, and a client in C. kvwal "
    "does the same in its process by 50 tasks. INCR is a read and a compare-and-set there, HSET a put of one field's key, MSET a "
    "put_many.",
    "starting the processes. Redis's other tests are of structures that a map of keys and values does not have.",
)
TESTS = {"SET": "set", "GET": "get", "INCR": "incr", "HSET": "hset", "MSET (10 keys)": "mset"}
KEYS = 100_000


async def increment(target: Any, key: str) -> None:
    """Add one by compare-and-set, as often as it takes."""
    while True:
        seen = await target.get(key)
        if seen is None:
            if await target.put_if_absent(key, 1):
                return
        elif await target.replace(key, seen, seen + 1):
            return


def operation(test: str, target: Any) -> Callable[[int], Awaitable[object]]:
    """What a task does at each of its turns."""
    value = b"x" * REDIS_VALUE
    operations: dict[str, Callable[[int], Awaitable[object]]] = {
        "SET": lambda number: target.put(f"key:{number * 7_919 % KEYS:012d}", value),
        "GET": lambda number: target.get(f"key:{number * 7_919 % KEYS:012d}"),
        "INCR": lambda number: increment(target, f"counter:{number * 7_919 % KEYS:012d}"),
        "HSET": lambda number: target.put(f"myhash:element:{number * 7_919 % KEYS:012d}", value),
        "MSET (10 keys)": lambda number: target.put_many(
            {f"key:{(number * 7_919 + other) % KEYS:012d}": value for other in range(10)}
        ),
    }
    return operations[test]


def by_tasks(folder: str, test: str, requests: int) -> dict[str, float]:
    """Requests of kvwal a second with as many tasks as redis-benchmark has clients."""
    return asyncio.run(_by_tasks(folder, test, requests))


async def _by_tasks(folder: str, test: str, requests: int) -> dict[str, float]:
    async with kvwal.aio.open(folder, archive=None) as store:
        request = operation(test, store.map("bench"))

        async def client(first: int) -> None:
            for number in range(first, requests, REDIS_CLIENTS):
                await request(number)

        started = time.perf_counter()
        await asyncio.gather(*(client(first) for first in range(REDIS_CLIENTS)))
        return {"rate": requests / (time.perf_counter() - started)}


def once(run: Run, name: str, test: str) -> rounds.Figures:
    """One test of one of the two."""
    requests = run.size(50_000, 1_000)
    if name == "redis":
        (rate,) = redis_benchmark.run(run.root(), [TESTS[test]], requests, REDIS_CLIENTS).values()
        return {"rate": rate}
    function = "benchmarks.questions.peers.peers_redis_mix:by_tasks"
    return dict(in_child(function, folder=str(run.root()), test=test, requests=requests))


def measure(run: Run) -> list[Row]:
    """A row for each test."""
    rows = []
    for test in REDIS_MIX:
        figures = rounds.contest(run, ["kvwal", "redis"], 3, partial(once, run, test=test))
        rows += rounds.rows(test, "requests/s", figures, {})
    return rows
