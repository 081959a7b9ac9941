"""Transactions of a thousand entries from one producer."""

from __future__ import annotations

import time
from pathlib import Path

import kvwal
from benchmarks.baselines import bare_appends
from benchmarks.harness import Question, Row, Run, ratio_row

QUESTION = Question(
    "batches",
    "How fast is put_many?",
    "a bare loop that appends 140 bytes to a growing file and calls fdatasync, once an entry.",
    "opening and closing the store, and building the dicts that are put.",
)
BATCH = 1_000


def put_batches(root: Path, batches: int) -> float:
    """Entries a second. Each batch is one durable transaction."""
    value = b"x" * 100
    prepared = [{f"{number * BATCH + key:08d}": value for key in range(BATCH)} for number in range(batches)]
    with kvwal.open(root, archive=None) as store:
        puts = store.map("bench")
        started = time.perf_counter()
        for batch in prepared:
            puts.put_many(batch)
        return batches * BATCH / (time.perf_counter() - started)


def measure(run: Run) -> list[Row]:
    """One row: entries a second beside those of the bare loop."""
    batches = run.size(500, 5)
    baselines, ours = run.interleave(
        5, lambda: bare_appends(run.folder, run.size(15, 1) / 10), lambda: put_batches(run.root(), batches)
    )
    return [ratio_row("put_many of 1,000, one producer (sync)", "entries/s", baselines, ours, "at least", 150)]
