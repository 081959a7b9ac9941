"""What a Spark driver notices of the recorder."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import kvwal
from benchmarks.harness import ADDED, Question, Row, Run, pairs
from kvwal.spark import JobRecorder

if TYPE_CHECKING:
    from pyspark import SparkContext

QUESTION = Question(
    "recorder",
    "What does a Spark driver notice of the recorder?",
    "the same jobs in the same session without a recorder.",
    "starting Spark, and starting and stopping the recorder, which waits for what is still to be recorded.",
)
BATCH = 100


def run_jobs(context: SparkContext, jobs: int) -> float:
    """Milliseconds a job, of `jobs` jobs of two tasks each."""
    numbers = context.parallelize([1, 2], 2)
    started = time.perf_counter()
    for _ in range(jobs):
        numbers.count()
    return (time.perf_counter() - started) * 1000 / jobs


def measure(run: Run) -> list[Row]:
    """One row: how much longer a job takes, in percent, or in milliseconds where a tenth of a job is less than that."""
    from pyspark.sql import SparkSession

    jobs, rounds = run.size(BATCH, 5), run.size(10, 1)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        run_jobs(spark.sparkContext, jobs)
        limits, ours = [], []
        with kvwal.open(run.root(), archive=None) as store:
            for _ in range(rounds):
                limits.append(run_jobs(spark.sparkContext, jobs))
                with JobRecorder(spark, store):
                    ours.append(run_jobs(spark.sparkContext, jobs))
    finally:
        spark.stop()
    return [added_row(limits, ours, jobs * rounds)]


def added_row(limits: list[float], ours: list[float], jobs: int) -> Row:
    """The milliseconds that a recorder adds to a job, against 6 ms or a tenth of the job, whichever is more."""
    added = statistics.median(pairs(ADDED, limits, ours))
    typical = statistics.median(limits)
    allowed = float(f"{max(6.0, typical / 10):.3g}")
    notes = {"jobs recorded": float(jobs), "added, percent": added / typical * 100}
    return Row("Two-task jobs with the recorder", "ms/job", ours, limits, added, ADDED, allowed, "at most", notes)
