"""Transactions of a hundred and of a thousand entries from one producer."""

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
TARGETS = {100: 58, 1_000: 150}
"""By the number of entries of a transaction: at least so many times the bare loop."""


def put_batches(root: Path, size: int, batches: int) -> float:
    """Entries a second. Each batch is one durable transaction."""
    value = b"x" * 100
    prepared = [{f"{number * size + key:08d}": value for key in range(size)} for number in range(batches)]
    with kvwal.open(root, archive=None) as store:
        puts = store.map("bench")
        started = time.perf_counter()
        for batch in prepared:
            puts.put_many(batch)
        return batches * size / (time.perf_counter() - started)


def measure(run: Run) -> list[Row]:
    """A row for each size of a transaction: entries a second beside those of the bare loop."""
    rows = []
    for size, target in TARGETS.items():
        batches = run.size(500_000 // size, 5)
        baselines, ours = run.interleave(
            5,
            lambda: bare_appends(run.folder, run.size(15, 1) / 10),
            lambda size=size, batches=batches: put_batches(run.root(), size, batches),  # type: ignore[misc]
        )
        name = f"put_many of {size:,}, one producer (sync)"
        rows.append(ratio_row(name, "entries/s", baselines, ours, "at least", target))
    return rows
