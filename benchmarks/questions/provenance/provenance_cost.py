"""Puts and takes with provenance on, beside the same with it off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kvwal
from benchmarks.harness import Question, Row, Run, rate, ratio_row

QUESTION = Question(
    "provenance_cost",
    "What does provenance cost?",
    "the same store with provenance off. Flush policy `os`, one thread, values of 70 bytes.",
    "opening and closing the store. With an fdatasync for each group the disk takes most of the time of both.",
)
VALUE = {"state": "RUNNING", "stage": 17, "text": "x" * 30}
MANY = 1_000
TARGET = 0.6

Work = Callable[[Any, int], None]


def put_each(work: Any, count: int) -> None:
    """Put keys of a map one by one; half of them are new."""
    jobs = work.map("jobs")
    for number in range(count):
        jobs[f"job-{number // 2}"] = VALUE


def put_many(work: Any, count: int) -> None:
    """Put a thousand keys of a map at a time."""
    jobs = work.map("jobs")
    for first in range(0, count, MANY):
        jobs.put_many({f"job-{number}": VALUE for number in range(first, first + MANY)})


def queue_each(work: Any, count: int) -> None:
    """Put an item, and take it."""
    queue = work.queue("todo")
    for _ in range(count // 2):
        queue.put(VALUE)
        queue.take()


def queue_many(work: Any, count: int) -> None:
    """Put a thousand items at a time, and take them."""
    queue = work.queue("todo")
    for _ in range(0, count // 2, MANY):
        queue.put_many([VALUE] * MANY)
        queue.take_many(MANY)


ROWS: dict[str, tuple[Work, int]] = {
    "map put": (put_each, 40_000),
    "map put_many of 1,000": (put_many, 400_000),
    "queue put and take": (queue_each, 40_000),
    "queue put_many and take_many of 1,000": (queue_many, 400_000),
}


def speed(run: Run, work: Work, count: int, *, on: bool) -> float:
    """Changes a second."""
    settings = kvwal.Settings(checkpoint_seconds=1e9)
    with kvwal.open(run.root(), archive=None, flush="os", settings=settings) as store:
        if on:
            store.provenance("work")
        business = store.business("work")
        work(business, MANY)
        return rate(count, lambda: work(business, count))


def measure(run: Run) -> list[Row]:
    """A row for each kind of change."""
    rows = []
    for name, (work, full) in ROWS.items():
        count = run.size(full, MANY * 2)
        off, on = run.interleave(
            7,
            lambda work=work, count=count: speed(run, work, count, on=False),
            lambda work=work, count=count: speed(run, work, count, on=True),
        )
        rows.append(ratio_row(f"{name}, provenance on", "changes/s", off, on, "at least", TARGET))
    return rows
