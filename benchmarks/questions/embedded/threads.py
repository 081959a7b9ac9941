"""Puts from threads, each of which waits for its own put."""

from __future__ import annotations

import threading
import time
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


def put_from_threads(root: Path, threads: int, seconds: float) -> float:
    """Durable puts of 100 bytes a second, of all threads together."""
    counts = [0] * threads
    with kvwal.open(root, archive=None) as store:
        puts = store.map("bench")
        stop = threading.Event()

        def produce(number: int) -> None:
            value = b"x" * 100
            while not stop.is_set():
                puts.put(f"{number:02d}{counts[number]:06d}", value)
                counts[number] += 1

        workers = [threading.Thread(target=produce, args=(number,)) for number in range(threads)]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        time.sleep(seconds)
        stop.set()
        for worker in workers:
            worker.join()
        return sum(counts) / (time.perf_counter() - started)


def measure(run: Run) -> list[Row]:
    """Two rows: two threads, and sixty-four."""
    seconds = run.size(15, 2) / 10
    rows = []
    for threads, target in ((2, 0.7), (64, 3.0)):
        ours_once = partial(put_from_threads, threads=threads, seconds=seconds)
        baselines, ours = run.interleave(
            5,
            lambda: bare_appends(run.folder, seconds),
            lambda work=ours_once: work(run.root()),  # type: ignore[misc]
        )
        rows.append(ratio_row(f"{threads} threads (sync)", "puts/s", baselines, ours, "at least", target))
    return rows
