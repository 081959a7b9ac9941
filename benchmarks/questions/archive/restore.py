"""The restore of a root from the archive alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, in_child, peak_memory

QUESTION = Question(
    "restore",
    "How fast is a restore from the archive?",
    "pyarrow reading every row of the same objects.",
    "starting the interpreter, importing kvwal, and making the archive.",
)
VERSIONS = 5
MODULE = "benchmarks.questions.archive.restore"


def fill(root: str, archive: str, keys: int) -> int:
    """Make an archive of `keys` keys, each written five times with values of 100 bytes. Returns the entries."""
    block = os.urandom(1 << 20)
    with kvwal.open(root, archive=archive, flush="os") as store:
        puts = store.map("bench")
        for first in range(0, keys * VERSIONS, 1_000):
            start = first * 7 % (len(block) - 101_000)
            numbers = range(first, first + 1_000)
            puts.submit_many({f"{i % keys:08d}": block[start + i - first : start + i - first + 100] for i in numbers})
        store.archive()
    return keys * VERSIONS


def read_objects(archive: str) -> dict[str, float]:
    """The baseline: read every row of every object into memory."""
    import pyarrow.parquet as parquet

    started = time.perf_counter()
    rows = sum(parquet.read_table(path, partitioning=None).num_rows for path in Path(archive).rglob("*.parquet"))
    return {"rows": rows, "seconds": time.perf_counter() - started, "memory": peak_memory()}


def restore_once(root: str, archive: str, keys: int) -> dict[str, float]:
    """Restore to an empty root, then check the number of keys."""
    started = time.perf_counter()
    kvwal.restore(archive, root, node="restored")
    seconds = time.perf_counter() - started
    memory = peak_memory()
    with kvwal.open(root, archive=None) as store:
        restored = len(store.map("bench"))
    if restored != keys:
        raise AssertionError(f"{restored} of {keys} keys came back")
    return {"seconds": seconds, "memory": memory}


def measure(run: Run) -> list[Row]:
    """One row: entries of the archive a second, until the restored root is complete."""
    keys = run.size(1_000_000, 2_000)
    source, archive = str(run.root()), str(run.root())
    in_child(f"{MODULE}:fill", root=source, archive=archive, keys=keys)
    entries = keys * VERSIONS
    memory: list[float] = []

    def ours() -> float:
        answer = in_child(f"{MODULE}:restore_once", root=str(run.root()), archive=archive, keys=keys)
        memory.append(answer["memory"])
        return float(entries / answer["seconds"])

    def baseline() -> float:
        answer = in_child(f"{MODULE}:read_objects", archive=archive)
        return float(answer["rows"] / answer["seconds"])

    baselines, figures = run.interleave(3, baseline, ours)
    notes = {"peak memory, MiB": max(memory)}
    return [
        absolute_row("Restore of 5M entries (1M keys)", "entries/s", baselines, figures, "at least", 1_000_000, notes)
    ]
