"""The time that a recorder adds to the jobs of a Spark driver."""

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
    "How much does the recorder slow down a Spark driver?",
    "the same jobs in the same session without a recorder.",
    "starting Spark, and starting and closing the recorder. A close waits for the last events to be recorded.",
)
BATCH = 100


def run_jobs(context: SparkContext, jobs: int) -> float:
    """Milliseconds a job, over `jobs` jobs of two tasks each."""
    numbers = context.parallelize([1, 2], 2)
    started = time.perf_counter()
    for _ in range(jobs):
        numbers.count()
    return (time.perf_counter() - started) * 1000 / jobs


def measure(run: Run) -> list[Row]:
    """One row: the milliseconds that a recorder adds to a job."""
    from pyspark.sql import SparkSession

    jobs, rounds = run.size(BATCH, 5), run.size(10, 1)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        run_jobs(spark.sparkContext, jobs)
        baselines, ours = [], []
        with kvwal.open(run.root(), archive=None) as store:
            for _ in range(rounds):
                baselines.append(run_jobs(spark.sparkContext, jobs))
                with JobRecorder(spark, store):
                    ours.append(run_jobs(spark.sparkContext, jobs))
    finally:
        spark.stop()
    return [added_row(baselines, ours, jobs * rounds)]


def added_row(baselines: list[float], ours: list[float], jobs: int) -> Row:
    """The milliseconds that a recorder adds to a job, with a target of 6 ms or a tenth of the job, the greater of both."""
    added = statistics.median(pairs(ADDED, baselines, ours))
    typical = statistics.median(baselines)
    allowed = float(f"{max(6.0, typical / 10):.3g}")
    notes = {"jobs recorded": float(jobs), "added, percent": added / typical * 100}
    return Row("Two-task jobs with the recorder", "ms/job", ours, baselines, added, ADDED, allowed, "at most", notes)
