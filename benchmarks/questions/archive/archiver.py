"""The latency of puts while the archiver works."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import kvwal
from benchmarks.harness import Question, Row, Run, percentile, ratio_row

QUESTION = Question(
    "archiver",
    "How much does the archiver slow down a put?",
    "the same puts on the same store before the archiver works.",
    "opening and closing the store, and writing the entries that are archived.",
)
NEVER = 1e9


def latencies(jobs: kvwal.Map, running: Callable[[], bool]) -> list[float]:
    """The seconds of each durable put of 100 bytes, as long as `running()` is true."""
    value = b"x" * 100
    samples = []
    while running():
        started = time.perf_counter()
        jobs.put(f"{len(samples) % 1_000:08d}", value)
        samples.append(time.perf_counter() - started)
    return samples


def fill(jobs: kvwal.Map, entries: int) -> None:
    """Put entries for the archiver to archive."""
    value = b"y" * 100
    for first in range(0, entries, 1_000):
        jobs.submit_many({f"{key:08d}": value for key in range(first, first + 1_000)})
    jobs.put("filled", value)


def one_round(run: Run, entries: int, seconds: float) -> tuple[float, float]:
    """The 99th percentile of a put's time in ms: without the archiver, and while it works."""
    settings = kvwal.Settings(archive_seconds=NEVER, checkpoint_seconds=NEVER, checkpoint_bytes=1 << 50)
    with kvwal.open(run.root(), archive=str(run.root()), settings=settings) as store:
        jobs = store.map("bench")
        fill(jobs, entries)
        until = time.perf_counter() + seconds
        quiet = latencies(jobs, lambda: time.perf_counter() < until)
        working = threading.Thread(target=store.archive)
        working.start()
        busy = latencies(jobs, working.is_alive)
        working.join()
    return percentile(quiet, 99) * 1000, percentile(busy, 99) * 1000


def measure(run: Run) -> list[Row]:
    """One row: the 99th percentile of a put's time."""
    entries = run.size(1_500_000, 3_000)
    pairs = [one_round(run, entries, run.size(30, 3) / 10) for _ in range(1 if run.quick else 5)]
    baselines, ours = [quiet for quiet, _ in pairs], [busy for _, busy in pairs]
    return [ratio_row("put p99 while the archiver works", "ms", baselines, ours, "at most", 2)]
