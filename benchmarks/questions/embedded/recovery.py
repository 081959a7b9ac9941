"""Opening a log of one million entries, and of five million."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import kvwal
from benchmarks.harness import Question, Row, Run, in_child, peak_memory, ratio_row

QUESTION = Question(
    "recovery",
    "How long does opening take after a crash or a stop?",
    "a bare loop over the same files: mmap, crc32c, msgspec decode, a dict that keeps keys, values and timestamps.",
    "starting the interpreter and importing kvwal. The memory is the peak of the whole process, imports included.",
)
NEVER = 1e9
MODULE = "benchmarks.questions.embedded.recovery"


def settings() -> kvwal.Settings:
    """Settings without checkpoints, so that opening reads the log only."""
    return kvwal.Settings(checkpoint_seconds=NEVER, checkpoint_bytes=1 << 50)


def fill(root: str, entries: int) -> int:
    """Write a log of `entries` keys with values of 100 bytes, in groups of 100, and close it."""
    block = os.urandom(1 << 20)
    with kvwal.open(root, archive=None, flush="os", settings=settings()) as store:
        puts = store.map("bench")
        for first in range(0, entries, 100):
            start = first * 7 % (len(block) - 10_100)
            puts.submit_many({f"{first + i:08d}": block[start + i * 100 : start + i * 100 + 100] for i in range(100)})
    return entries


def open_once(root: str, entries: int) -> dict[str, float]:
    """Open the store and check the number of keys. Returns the seconds and the peak memory of the opening."""
    started = time.perf_counter()
    with kvwal.open(root, archive=None, settings=settings()) as store:
        keys = len(store.map("bench"))
        seconds = time.perf_counter() - started
        memory = peak_memory()
    if keys != entries:
        raise AssertionError(f"{keys} of {entries} keys came back")
    return {"seconds": seconds, "memory": memory}


def rounds(run: Run, root: Path, entries: int, count: int) -> dict[str, list[float]]:
    """Seconds and memory of the baseline and of kvwal, in turn."""
    figures: dict[str, list[float]] = {"baseline": [], "ours": [], "baseline_memory": [], "ours_memory": []}
    for _ in range(1 if run.quick else count):
        bare = in_child("benchmarks.baselines:bare_recovery", folder=str(root))
        ours = in_child(f"{MODULE}:open_once", root=str(root), entries=entries)
        figures["baseline"].append(bare["seconds"])
        figures["baseline_memory"].append(bare["memory"])
        figures["ours"].append(ours["seconds"])
        figures["ours_memory"].append(ours["memory"])
    return figures


def measure(run: Run) -> list[Row]:
    """Three rows: time and memory for a million entries, then the time for five million."""
    million = run.size(1_000_000, 2_000)
    small, large = run.root(), run.root()
    in_child(f"{MODULE}:fill", root=str(small), entries=million)
    in_child(f"{MODULE}:fill", root=str(large), entries=5 * million)
    one = rounds(run, small, million, 5)
    five = rounds(run, large, 5 * million, 2)
    growth = statistics.median(five["ours"]) / statistics.median(one["ours"])
    linear = Row(
        "Opening 5M entries", "s", five["ours"], five["baseline"], growth, "× the time of 1M", 6, "at most",
        {"memory of kvwal, MiB": statistics.median(five["ours_memory"])},
    )  # fmt: skip
    return [
        ratio_row("Opening 1M entries of 100 B", "s", one["baseline"], one["ours"], "at most", 1.5),
        ratio_row("Memory after opening", "MiB", one["baseline_memory"], one["ours_memory"], "at most", 1.5),
        linear,
    ]
