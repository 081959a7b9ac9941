"""Puts and recovery of data in extreme shapes, beside mixed data."""

from __future__ import annotations

import time

import kvwal
from benchmarks.harness import Question, Row, Run, in_child, ratio_row
from benchmarks.questions.embedded import recovery
from tests.support.log.shapes import SHAPES, shaped

QUESTION = Question(
    "shapes",
    "How fast are puts and recovery of data in extreme shapes?",
    "changes in the shape `mixed`, in the same round: half puts of up to 200 random bytes, half deletes. All shapes run in turn,"
    " then all again.",
    "the disk: one thread submits the changes under the flush policy `os`, and waits for the last one. Starting interpreters,"
    " making the data, and closing the store. The shapes are those of the tests (`tests/support/log/shapes.py`): one huge has a"
    " value of 1 MiB among small ones, and what expires does so after the measurement.",
)
MODULE = "benchmarks.questions.embedded.shapes"
MIXED = "mixed"
TTL = 86_400.0


def put(root: str, shape: str, count: int) -> dict[str, float]:
    """Make the changes of a shape. Returns how many they were, their seconds, and how many keys they left."""
    changes = shaped(shape, count, seed=1)
    with kvwal.open(root, archive=None, flush="os", settings=recovery.settings()) as store:
        target = store.map("bench")
        started = time.perf_counter()
        for key, value, ttl_ms in changes.changes:
            if value is None:
                target.submit_many({}, [key])
            else:
                target.submit(key, value, TTL if ttl_ms else None)
        target.put("last", b"")
        seconds = time.perf_counter() - started
    return {"changes": len(changes.changes) + 1, "seconds": seconds, "keys": len(changes.latest()) + 1}


def one_round(run: Run, shape: str, count: int) -> tuple[float, float]:
    """Changes a second of the puts, and of the opening afterwards."""
    root = str(run.root())
    written = in_child(f"{MODULE}:put", root=root, shape=shape, count=count)
    opened = in_child("benchmarks.questions.embedded.recovery:open_once", root=root, entries=written["keys"])
    return written["changes"] / written["seconds"], written["changes"] / opened["seconds"]


def measure(run: Run) -> list[Row]:
    """Two rows for each shape: its puts, and its recovery."""
    count = run.size(100_000, 1_000)
    rates: dict[str, list[tuple[float, float]]] = {shape: [] for shape in SHAPES}
    for _ in range(run.rounds(3)):
        for shape in SHAPES:
            rates[shape].append(one_round(run, shape, count))
    rows = []
    for shape in SHAPES:
        if shape != MIXED:
            for step, name in enumerate(("puts", "recovery")):
                baselines, ours = ([each[step] for each in rates[which]] for which in (MIXED, shape))
                rows.append(ratio_row(f"{shape}: {name}", "changes/s", baselines, ours, "at least", 0.5))
    return rows
