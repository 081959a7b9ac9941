"""The compaction of an archive on Spark, beside that of one process: from which size on Spark is quicker."""

from __future__ import annotations

import random
import shutil
import time

from archive.layout import Place, Span
from archive.maintenance.compaction import rewrite
from archive.objects import open_objects
from archive.registry import register
from archive.writer import put_segment
from benchmarks import by_hand
from benchmarks.by_hand import CORES, PLACE
from benchmarks.harness import Question, Row, Run, in_child, unranked_row
from benchmarks.questions.pipeline.one_key import random_rows

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


def fill(archive: str, objects: int, rows: int) -> int:
    """Archive some objects of each node. Returns the bytes of all keys and values."""
    chance, store, total = random.Random(1), open_objects(archive), 0
    for node in range(NODES):
        place = Place(**PLACE, node=f"node-{node}")
        register(store, place, f"log-{node}")
        for number in range(objects):
            span = Span(number * rows + 1, (number + 1) * rows)
            table = random_rows(chance, span)
            put_segment(store, place, span, table, log_id=f"log-{node}", previous_crc=number, seal_crcs=[number + 1])
            total += table.column("key").nbytes + table.column("value").nbytes
    return total


def by_one_process(archive: str) -> dict[str, float]:
    """The seconds of a compaction by this process."""
    store = open_objects(archive)
    started = time.perf_counter()
    made = sum(len(rewrite(store, Place(**PLACE, node=f"node-{n}"), now_ms=0, force=True)) for n in range(NODES))
    return {"seconds": time.perf_counter() - started, "made": made}


def by_spark(archive: str) -> dict[str, float]:
    """The seconds of a session's start, and of a compaction by its workers."""
    from archive.spark import rewrite as rewrite_on_spark

    started = time.perf_counter()
    spark = by_hand.session()
    ready = time.perf_counter()
    made = rewrite_on_spark(spark, archive, **PLACE, history_ms=1 << 41, force=True)
    seconds = time.perf_counter() - ready
    spark.stop()
    return {"start": ready - started, "seconds": seconds, "made": len(made)}


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
