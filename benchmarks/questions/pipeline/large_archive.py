"""An archive of fifty million rows on Spark: the merge beside that of a tenth of it, and the restore with a base and without."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import psutil

import kvwal
from benchmarks.harness import Question, Row, Run, in_child, ratio_row
from benchmarks.pipeline import by_hand
from benchmarks.pipeline.by_hand import CORES, MEMORY, MERGE

QUESTION = Question(
    "large_archive",
    "How long do a merge and a restore of fifty million rows take?",
    "of the first row, the time of the same merge of a tenth of the rows; of the second, the entries a second of kvwal.restore"
    " of the archive with one row of a hundred behind it, without the base.",
    f"making the archives and the base (its time stands beside its row), and the start of the session. Driver and executors are"
    f" one JVM with {MEMORY} of heap. The merged rows are written as Parquet.",
)
MODULE = "benchmarks.questions.pipeline.large_archive"
VERSIONS, SHARE = 5, 100
MIB = 1 << 20


def merge_large(archive: str, keys: int, into: str) -> dict[str, float]:
    """`by_hand.run` of the merge, and the greatest memory of this process, its JVM and the workers together, in MiB."""
    found, ended = list[float](), threading.Event()
    watcher = threading.Thread(target=_watch, args=[found, ended])
    watcher.start()
    try:
        answer = by_hand.run(archive, MERGE, keys, into)
    finally:
        ended.set()
        watcher.join()
    return answer | {"memory": max(found)}


def _watch(found: list[float], ended: threading.Event) -> None:
    while True:
        found.append(_memory() / MIB)
        if ended.wait(0.5):
            return


def _memory() -> int:
    """The bytes of this process and all below it; what they share is counted once."""
    total = 0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


def make_base(archive: str) -> dict[str, float]:
    """The seconds of a base on Spark, those of the session's start, and the size of the base in MiB."""
    from kvwal_archive.spark import base

    with by_hand.timed_session() as (spark, times):
        made = base(spark, archive, **by_hand.PLACE)
    return times | {"size": sum(part.size for part in made.parts) / MIB}


def restore(archive: str, root: str, keys: int) -> float:
    """The seconds of a restore to an empty root. Raises AssertionError if keys are missing."""
    started = time.perf_counter()
    report = kvwal.restore(archive, root, node="restored")
    seconds = time.perf_counter() - started
    if report.entries[by_hand.BUSINESS] != keys:
        raise AssertionError(f"{report.entries} instead of {keys} keys came back")
    return seconds


def merged(run: Run, archive: str, smaller: str, keys: int) -> Row:
    """The row of the merge."""
    memory: list[float] = []

    def seconds(of: str, count: int) -> float:
        into = str(run.root() / "rows")
        answer = in_child(f"{MODULE}:merge_large", archive=of, keys=count, into=into)
        memory.append(answer["memory"])
        return float(answer["seconds"])

    small, large = run.interleave(1, lambda: seconds(smaller, keys // 10), lambda: seconds(archive, keys))
    notes = {"greatest memory of the driver, the JVM and the workers, MiB": memory[-1]}
    return ratio_row(
        f"Merge of 50M entries on {CORES} cores, written as Parquet", "s", small, large, "at most", 12, notes
    )


def restored(run: Run, root: str, archive: str, keys: int) -> Row:
    """The row of the restore."""
    tail = keys * VERSIONS // SHARE
    made = in_child(f"{MODULE}:make_base", archive=archive)
    in_child(f"{by_hand.MODULE}:fill", root=root, archive=archive, first=keys * VERSIONS, entries=tail, keys=keys)
    entries = keys * VERSIONS + tail
    commits = list(Path(archive).rglob("_base/*.json"))
    hidden = [commit.with_suffix(".hidden") for commit in commits]

    def rate() -> float:
        return entries / float(in_child(f"{MODULE}:restore", archive=archive, root=str(run.root()), keys=keys))

    def without() -> float:
        for commit, name in zip(commits, hidden, strict=True):
            os.rename(commit, name)
        try:
            return rate()
        finally:
            for commit, name in zip(commits, hidden, strict=True):
                os.rename(name, commit)

    notes = {"making the base on Spark, s": made["seconds"], "size of the base, MiB": made["size"]}
    return ratio_row(
        "Restore of 50M entries, from a base and 1 % behind it", "entries/s", *run.interleave(1, without, rate),
        "at least", 3, notes,
    )  # fmt: skip


def measure(run: Run) -> list[Row]:
    """Two rows: the time of the merge, and of the restore the entries of the archive a second."""
    keys = run.size(10_000_000, 20_000)
    root, archive, smaller = str(run.root()), str(run.root()), str(run.root())
    in_child(f"{by_hand.MODULE}:fill", root=root, archive=archive, first=0, entries=keys * VERSIONS, keys=keys)
    in_child(
        f"{by_hand.MODULE}:fill",
        root=str(run.root()),
        archive=smaller,
        first=0,
        entries=keys * VERSIONS // 10,
        keys=keys // 10,
    )
    return [merged(run, archive, smaller, keys), restored(run, root, archive, keys)]
