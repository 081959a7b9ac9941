"""The compaction of an archive on Spark, beside that of one process: from which size on Spark is quicker."""

from __future__ import annotations

import shutil
import time

from benchmarks.harness import Question, Row, Run, in_child, unranked_row
from benchmarks.pipeline import by_hand, random_archive
from benchmarks.pipeline.by_hand import CORES, PLACE
from kvwal_archive.layout import Place
from kvwal_archive.maintenance.compaction import rewrite
from kvwal_archive.objects import open_objects

QUESTION = Question(
    "archive_rewrite",
    "How fast is the compaction of an archive on Spark?",
    "the same compaction by one process, as `kvwal archive rewrite` does it without --spark.",
    "making the archive, and the start of the session, which stands beside the row. The rate is that of keys and values before"
    " they are compressed. The values are random.",
)
MODULE = "benchmarks.questions.pipeline.archive_rewrite"
NODES, OBJECTS, ROWS = 4, 10, 100_000
MB = 1e6


def places() -> list[Place]:
    """The logs."""
    return [Place(**PLACE, node=f"node-{number}") for number in range(NODES)]


def fill(archive: str, objects: int, rows: int) -> int:
    """Archive some objects of each log. Returns the bytes of all keys and values."""
    store = open_objects(archive)
    return sum(random_archive.fill(store, place, objects, rows) for place in places())


def by_one_process(archive: str) -> dict[str, float]:
    """The seconds of a compaction by this process."""
    store = open_objects(archive)
    started = time.perf_counter()
    made = sum(len(rewrite(store, place, now_ms=0, force=True)) for place in places())
    return {"seconds": time.perf_counter() - started, "made": made}


def by_spark(archive: str) -> dict[str, float]:
    """The seconds of a session's start, and of a compaction by its workers."""
    from kvwal_archive.spark import rewrite as rewrite_on_spark

    with by_hand.timed_session() as (spark, times):
        made = rewrite_on_spark(spark, archive, **PLACE, history_ms=1 << 41, force=True)
    return times | {"made": len(made)}


def measure(run: Run) -> list[Row]:
    """One row: megabytes of keys and values a second."""
    archive = run.root()
    total = in_child(f"{MODULE}:fill", archive=str(archive), objects=run.size(OBJECTS, 2), rows=run.size(ROWS, 100))
    starts: list[float] = []

    def rate(function: str) -> float:
        copy = run.root() / "archive"
        shutil.copytree(archive, copy)
        answer = in_child(f"{MODULE}:{function}", archive=str(copy))
        shutil.rmtree(copy)
        if answer["made"] < NODES:
            raise AssertionError(f"{answer['made']} objects were made")
        starts.extend([answer["start"]] if "start" in answer else [])
        return float(total / MB / answer["seconds"])

    found = run.interleave(2, lambda: rate("by_one_process"), lambda: rate("by_spark"))
    notes = {"start of the session, s": sorted(starts)[len(starts) // 2], "keys and values, MB": total / MB}
    return [unranked_row(f"Compaction of {NODES} logs on {CORES} cores", "MB/s", *found, notes)]
