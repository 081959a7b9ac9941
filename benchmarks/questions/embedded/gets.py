"""Gets from the memory of a store."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, rate

QUESTION = Question(
    "gets",
    "How fast is a get?",
    "the same keys looked up in a plain dict.",
    "filling the store.",
)


def look_up(table: Mapping[str, bytes], keys: list[str]) -> None:
    """Look up every key once."""
    for key in keys:
        table[key]


def measure(run: Run) -> list[Row]:
    """One row: one thread, keys in random order."""
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
    return [absolute_row("get, one thread (100 B)", "gets/s", baselines, ours, "at least", 500_000)]
