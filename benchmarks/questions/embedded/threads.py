"""Puts from threads, each of which waits for its own put."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import kvwal
from benchmarks.baselines import bare_appends
from benchmarks.harness import Question, Row, Run, ratio_row

QUESTION = Question(
    "threads",
    "How fast are puts from threads?",
    "a bare loop in one thread that appends 140 bytes to a growing file and calls fdatasync.",
    "opening and closing the store.",
)
TARGETS = {(1, 1): 0.9, (2, 1): 1.2, (8, 1): 2.5, (32, 1): 6.5, (64, 1): 6.5, (2, 2): 1.5, (8, 8): 2.0}
"""By the number of threads and of maps: at least so many times the bare loop."""
MAIN = "1 put at a time, on the main thread (sync)"


def put_from_threads(root: Path, threads: int, maps: int, seconds: float) -> float:
    """Durable puts of 100 bytes a second, of all threads together, which share the maps."""
    counts = [0] * threads
    with kvwal.open(root, archive=None) as store:
        opened = [store.map(f"bench-{number}") for number in range(maps)]
        stop = threading.Event()

        def produce(number: int) -> None:
            counts[number] = put_until(stop.is_set, opened[number % maps], f"{number:02d}")

        workers = [threading.Thread(target=produce, args=(number,)) for number in range(threads)]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        time.sleep(seconds)
        stop.set()
        for worker in workers:
            worker.join()
        return sum(counts) / (time.perf_counter() - started)


def put_from_the_main_thread(root: Path, seconds: float) -> float:
    """Durable puts of 100 bytes a second of a program without threads: signal handlers run between its steps."""
    with kvwal.open(root, archive=None) as store:
        puts = store.map("bench")
        started = time.perf_counter()
        return put_until(lambda: time.perf_counter() - started >= seconds, puts, "main") / seconds


def put_until(over: Callable[[], bool], puts: kvwal.Map, name: str) -> int:
    """Put under new keys, one after the other, until it is over; the number of puts."""
    value = b"x" * 100
    count = 0
    while not over():
        puts.put(f"{name}{count:06d}", value)
        count += 1
    return count


def measure(run: Run) -> list[Row]:
    """A row for each number of threads and maps, and one for the main thread."""
    seconds = run.size(15, 2) / 10
    works: list[tuple[str, Callable[[Path], float], float]] = [
        (row_name(*shape), partial(put_from_threads, threads=shape[0], maps=shape[1], seconds=seconds), target)
        for shape, target in TARGETS.items()
    ]
    works.append((MAIN, partial(put_from_the_main_thread, seconds=seconds), 0.9))
    rows = []
    for name, work, target in works:
        baselines, ours = run.interleave(
            5,
            lambda: bare_appends(run.folder, seconds),
            lambda work=work: work(run.root()),  # type: ignore[misc]
        )
        rows.append(ratio_row(name, "puts/s", baselines, ours, "at least", target))
    return rows


def row_name(threads: int, maps: int) -> str:
    """The name of a row."""
    named = "1 thread" if threads == 1 else f"{threads} threads"
    return f"{named} (sync)" if maps == 1 else f"{named}, a map each (sync)"
