"""Reads from the memory of a store: gets, and the first read in the order of the keys, beside which puts go on."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, in_child, rate

QUESTION = Question(
    "gets",
    "How fast is a get, and how long does a put wait beside a read?",
    "the same keys looked up in a plain dict; for the puts, the same thread in the second before the read.",
    "filling the store. The puts do not wait for the disk.",
)
ALONE_SECONDS = 1.0
BATCH = 5_000


def look_up(table: Mapping[str, bytes], keys: list[str]) -> None:
    """Look up every key once."""
    for key in keys:
        table[key]


class Putter:
    """A thread that puts, one after the other. `waits` has the moment and the seconds of each put."""

    def __init__(self, puts: kvwal.Map) -> None:
        self.waits: list[tuple[float, float]] = []
        self._puts = puts
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            begun = time.perf_counter()
            self._puts.put(f"put-{number % 1_000}", number)
            self.waits.append((begun, time.perf_counter() - begun))
            number += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Put during the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()

    def longest(self, since: float, until: float) -> float:
        """Milliseconds of the longest put that overlaps with the time from `since` to `until`."""
        return 1_000 * max(wait for begun, wait in self.waits if begun < until and begun + wait > since)


def put_beside_scan(root: str, count: int) -> dict[str, float]:
    """The longest puts, in milliseconds: alone, and beside the first read in the order of `count` keys."""
    with kvwal.open(root, archive=None, flush="os") as store:
        keys = store.map("bench")
        for first in range(0, count, BATCH):
            keys.put_many({f"job-{number * 7_919 % count:09d}": number for number in range(first, first + BATCH)})
        putter = Putter(keys)
        with putter.running():
            time.sleep(ALONE_SECONDS)
            begun = time.perf_counter()
            next(iter(keys.scan("job-")))
            ended = time.perf_counter()
        alone = putter.longest(begun - ALONE_SECONDS, begun)
    return {"alone": alone, "beside": putter.longest(begun, ended)}


def longest_waits(run: Run) -> Row:
    """One row: the longest wait of a put beside the first ordered read."""
    count = run.size(1_000_000, 2 * BATCH)
    answers = [
        in_child("benchmarks.questions.embedded.gets:put_beside_scan", root=str(run.root()), count=count)
        for _ in range(run.size(5, 1))
    ]
    alone, beside = ([answer[name] for answer in answers] for name in ("alone", "beside"))
    return absolute_row("Longest put beside the first ordered read of 1M keys", "ms", alone, beside, "at most", 100)


def measure(run: Run) -> list[Row]:
    """Two rows: gets of one thread, keys in random order; and puts beside an ordered read."""
    count = run.size(100_000, 1_000)
    plain = {f"job-{number}": os.urandom(100) for number in range(count)}
    keys = list(plain) * run.size(5, 1)
    random.Random(1).shuffle(keys)
    with kvwal.open(run.root(), archive=None, flush="os") as store:
        jobs = store.map("bench")
        items = list(plain.items())
        for first in range(0, count, 1_000):
            jobs.put_many(dict(items[first : first + 1_000]))
        baselines, ours = run.interleave(
            5,
            lambda: rate(len(keys), lambda: look_up(plain, keys)),
            lambda: rate(len(keys), lambda: look_up(jobs, keys)),
        )
    return [
        absolute_row("get, one thread (100 B)", "gets/s", baselines, ours, "at least", 500_000),
        longest_waits(run),
    ]
