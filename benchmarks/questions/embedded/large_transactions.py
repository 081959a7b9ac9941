"""A transaction of gigabytes, and a thread that puts single values meanwhile."""

from __future__ import annotations

import os
import threading
import time

import kvwal
from benchmarks.harness import Question, Row, Run, in_child, percentile, ratio_row

QUESTION = Question(
    "large_transactions",
    "How fast is a transaction of 2 GiB, and what do other writers notice of it?",
    "a bare loop that writes the same bytes to a growing file, 1 MiB a call, and calls fdatasync once; for the last row, the puts"
    " of the other thread before the transaction.",
    "opening and closing the store, and making the values. The map is in memory, so the process takes the bytes of its values.",
)
MIB = 1 << 20
BEFORE_S = 3.0


def put_all(root: str, count: int) -> dict[str, float]:
    """Put `count` values of 1 MiB in one transaction, while another thread puts a small value again and again."""
    values = [os.urandom(MIB) for _ in range(64)]
    took: list[tuple[float, float]] = []
    over = threading.Event()
    with kvwal.open(root, archive=None, settings=kvwal.Settings(checkpoint_seconds=1e6)) as store:
        puts = store.map("bench")

        def produce() -> None:
            while not over.is_set():
                began = time.perf_counter()
                puts.put("other", b"x" * 100)
                took.append((began, time.perf_counter() - began))

        other = threading.Thread(target=produce)
        other.start()
        over.wait(BEFORE_S)
        started = time.perf_counter()
        puts.put_many((number, values[number % len(values)]) for number in range(count))
        ended = time.perf_counter()
        over.set()
        other.join()
    before = [seconds for began, seconds in took if began + seconds < started]
    meanwhile = [seconds for began, seconds in took if began + seconds >= started and began < ended]
    return {"rate": count / (ended - started), "before": percentile(before, 99), "meanwhile": percentile(meanwhile, 99)}


def write_all(path: str, count: int) -> dict[str, float]:
    """The baseline: write the same number of values to one file, durable at the end."""
    values = [os.urandom(MIB) for _ in range(64)]
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    started = time.perf_counter()
    for number in range(count):
        os.write(file, values[number % len(values)])
    os.fdatasync(file)
    seconds = time.perf_counter() - started
    os.close(file)
    os.unlink(path)
    return {"rate": count / seconds}


def measure(run: Run) -> list[Row]:
    """The rate of the transaction, and the 99th percentile of the other writer."""
    count = run.size(2_048, 32)
    module = "benchmarks.questions.embedded.large_transactions"
    before: list[float] = []
    meanwhile: list[float] = []

    def ours() -> float:
        answer = in_child(f"{module}:put_all", root=str(run.root()), count=count)
        before.append(answer["before"])
        meanwhile.append(answer["meanwhile"])
        return float(answer["rate"])

    def bare() -> float:
        return float(in_child(f"{module}:write_all", path=str(run.root() / "bare"), count=count)["rate"])

    baselines, rates = run.interleave(3, bare, ours)
    return [
        ratio_row("A transaction of 2 GiB in values of 1 MiB (sync)", "MiB/s", baselines, rates, "at least", 0.7),
        ratio_row("A put of another thread meanwhile, p99", "s", before, meanwhile, "at most", 3),
    ]
