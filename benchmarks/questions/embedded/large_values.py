"""Values of 1 MiB from two producers, more of them than preallocated segments and caches can take."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, in_child, peak_memory, ratio_row

QUESTION = Question(
    "large_values",
    "How fast are values of 1 MiB, and how much memory do they take?",
    "a bare loop that appends 1 MiB to a growing file and calls fdatasync, once a value.",
    "opening and closing the store.",
)
MIB = 1 << 20
KEYS = 32


def put_values(root: str, count: int) -> dict[str, float]:
    """Put `count` durable values of 1 MiB from two threads over a few keys."""
    values = [os.urandom(MIB) for _ in range(8)]
    with kvwal.open(root, archive=None) as store:
        puts = store.map("bench")

        def produce(first: int) -> None:
            for number in range(first, count, 2):
                puts.put(number % KEYS, values[number % len(values)])

        workers = [threading.Thread(target=produce, args=(first,)) for first in (0, 1)]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - started
    return {"rate": count / seconds, "memory": peak_memory()}


def grow(path: str, count: int) -> dict[str, float]:
    """The baseline: append the same number of values to one file."""
    value = os.urandom(MIB)
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    started = time.perf_counter()
    for _ in range(count):
        os.write(file, value)
        os.fdatasync(file)
    seconds = time.perf_counter() - started
    os.close(file)
    os.unlink(path)
    return {"rate": count / seconds, "memory": peak_memory()}


def measure(run: Run) -> list[Row]:
    """Two rows: the rate, and the peak memory of the whole process."""
    count = run.size(2_000, 24)
    memory: dict[str, list[float]] = {"grow": [], "put_values": []}

    def child(function: str, **arguments: Any) -> float:
        answer = in_child(f"benchmarks.questions.embedded.large_values:{function}", count=count, **arguments)
        memory[function].append(answer["memory"])
        return float(answer["rate"])

    baselines, ours = run.interleave(
        3, lambda: child("grow", path=str(run.root() / "bare")), lambda: child("put_values", root=str(run.root()))
    )
    return [
        ratio_row("1 MiB values, 2 producers (sync)", "values/s", baselines, ours, "at least", 1.5),
        absolute_row("Peak memory of that process", "MiB", memory["grow"], memory["put_values"], "at most", 512),
    ]
