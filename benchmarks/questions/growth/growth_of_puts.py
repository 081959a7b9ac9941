"""What a put costs as the keys in memory, the open maps and the values grow."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import kvwal
from benchmarks.growth import BASELINE, Curve, rows
from benchmarks.harness import Question, Row, Run, in_child

QUESTION = Question(
    "growth_of_puts",
    "What does a put cost as a store grows?",
    BASELINE,
    "the disk: the figures are processor time under the flush policy `os`, of one thread that puts one value at a time. Filling"
    " the store. Values have 100 bytes where they do not grow.",
)
MODULE = "benchmarks.questions.growth.growth_of_puts"
SETTINGS = kvwal.Settings(checkpoint_seconds=1e9, checkpoint_bytes=1 << 50)
PUTS = 20_000
KEYS = (1_000, 10_000, 100_000, 1_000_000, 3_000_000)
MAPS = (1, 2, 10, 100, 1_000)
VALUES = (10, 100, 1_000, 10_000, 100_000, 1 << 20, 4 << 20)
LARGE_BYTES = 256 << 20
"""About the bytes of all puts of a size, where `PUTS` of them would be more."""


def processor_time(work: Callable[[], object]) -> float:
    """Seconds of processor time of this process while a thread does the work: the main thread hands its puts to another."""
    with ThreadPoolExecutor(1) as thread:
        before = time.process_time()
        thread.submit(work).result()
        return time.process_time() - before


def among_keys(root: str, keys: int) -> float:
    """Microseconds of a put to one of so many keys, drawn at random."""
    value = os.urandom(100)
    with kvwal.open(root, archive=None, flush="os", settings=SETTINGS) as store:
        target = store.map("bench")
        for first in range(0, keys, 1_000):
            target.put_many({f"{key:08d}": value for key in range(first, first + 1_000)})
        drawn = [f"{key:08d}" for key in random.Random(1).choices(range(keys), k=PUTS)]

        def put() -> None:
            for key in drawn:
                target.put(key, value)

        return processor_time(put) / PUTS * 1e6


def among_maps(root: str, count: int) -> float:
    """Microseconds of a put to one of so many open maps, in turn."""
    value = os.urandom(100)
    with kvwal.open(root, archive=None, flush="os", settings=SETTINGS) as store:
        maps = [store.map(f"bench-{number}") for number in range(count)]

        def put(puts: int) -> None:
            for number in range(puts):
                maps[number % count].put(f"{number:08d}", value)

        put(count)  # each log opens its file
        return processor_time(partial(put, PUTS)) / PUTS * 1e6


def of_bytes(root: str, size: int) -> float:
    """Microseconds of a put of a value of so many bytes."""
    value, puts = os.urandom(size), min(PUTS, LARGE_BYTES // size)
    with kvwal.open(root, archive=None, flush="os", settings=SETTINGS) as store:
        target = store.map("bench")

        def put() -> None:
            for number in range(puts):
                target.put(f"{number % 10:08d}", value)

        return processor_time(put) / puts * 1e6


def measure(run: Run) -> list[Row]:
    """A curve for each thing that grows."""

    def cost(function: str, size: int) -> float:
        return float(in_child(f"{MODULE}:{function}", root=str(run.root()), **{NAMES[function]: size}))

    curves = [
        Curve("a put by the keys in memory", "µs/put", KEYS, partial(cost, "among_keys")),
        Curve("a put by the open maps", "µs/put", MAPS, partial(cost, "among_maps")),
        Curve("a put by the bytes of its value", "µs/put", VALUES, partial(cost, "of_bytes")),
    ]
    return [row for curve in curves for row in rows(run, curve, 3)]


NAMES = {"among_keys": "keys", "among_maps": "count", "of_bytes": "size"}
"""What each function calls its size."""
