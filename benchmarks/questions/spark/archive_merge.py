"""The merge of an archive on Spark, beside a restore of the same archive by one process."""

from __future__ import annotations

import time

from benchmarks.harness import Question, Row, Run, in_child, unranked_row
from benchmarks.questions.embedded import restore

QUESTION = Question(
    "archive_merge",
    "How fast is the merge of an archive on Spark?",
    "kvwal.restore of the same archive, which merges in one process, and writes a root.",
    "making the archive. The start of the session stands beside the row; on Spark nothing is written, every row is counted.",
)
MODULE = "benchmarks.questions.spark.archive_merge"
CORES = 2


def merge_once(archive: str, keys: int) -> dict[str, float]:
    """The seconds of a session's start, and of a merge on its two cores. Raises AssertionError if keys are missing."""
    from pyspark.sql import SparkSession

    from archive.spark import merge

    started = time.perf_counter()
    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "1g").getOrCreate()
    spark.range(1).count()
    ready = time.perf_counter()
    rows = merge(spark, archive, namespace="default", cluster="local", business="bench").count()
    seconds = time.perf_counter() - ready
    spark.stop()
    if rows != keys:
        raise AssertionError(f"{rows} of {keys} keys came back")
    return {"start": ready - started, "seconds": seconds}


def measure(run: Run) -> list[Row]:
    """One row: entries of the archive a second."""
    keys = run.size(1_000_000, 2_000)
    entries = keys * restore.VERSIONS
    archive = str(run.root())
    in_child(f"{restore.MODULE}:fill", root=str(run.root()), archive=archive, keys=keys)
    starts: list[float] = []

    def baseline() -> float:
        answer = in_child(f"{restore.MODULE}:restore_once", root=str(run.root()), archive=archive, keys=keys)
        return float(entries / answer["seconds"])

    def ours() -> float:
        answer = in_child(f"{MODULE}:merge_once", archive=archive, keys=keys)
        starts.append(answer["start"])
        return float(entries / answer["seconds"])

    baselines, figures = run.interleave(2, baseline, ours)
    notes = {"start of the session, s": sorted(starts)[len(starts) // 2]}
    return [unranked_row(f"Merge of 5M entries on {CORES} cores", "entries/s", baselines, figures, notes)]
