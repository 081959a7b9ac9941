"""The recorder into a cluster: what it adds to a driver's jobs, and how soon they are seen."""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, percentile
from benchmarks.nodes import CLUSTER, Nodes, nodes
from benchmarks.questions.spark.recorder import added_row, run_jobs
from kvwal.spark import JobRecorder
from kvwal.spark.record_keys import app_prefix, job_key

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

QUESTION = Question(
    "cluster_recorder",
    "How much does a recorder into a cluster slow down a Spark driver, and how soon is a job seen?",
    "the same jobs in the same session without a recorder.",
    "starting Spark and the nodes, and starting and closing the recorder. Driver and nodes share the machine's cores.",
)
BATCH = 100
LOOK_SECONDS = 0.01


def session() -> SparkSession:
    """A Spark session in this process."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.driver.memory", "512m").getOrCreate()


def seconds_until_seen(context: SparkContext, cluster: Nodes, jobs: int) -> list[float]:
    """For each of some jobs that run one after the other, the seconds from its end until its record in the cluster says so."""
    prefix, first = app_prefix(context.applicationId), context._jsc.sc().dagScheduler().numTotalJobs()
    ended: list[float] = []
    seen: list[float] = []

    def look() -> None:
        with kvwal.connect(cluster.addresses, cluster=CLUSTER) as store:
            records = store.map("spark")
            for number in range(first, first + jobs):
                while (records.get(job_key(prefix, number)) or {}).get("status") != "SUCCEEDED":
                    time.sleep(LOOK_SECONDS)
                seen.append(time.perf_counter())

    with ThreadPoolExecutor(1) as looking:
        looked = looking.submit(look)
        for _ in range(jobs):
            run_jobs(context, 1)
            ended.append(time.perf_counter())
        looked.result()
    return [max(0.0, later - end) for end, later in zip(ended, seen, strict=True)]


def one_driver(run: Run, cluster: Nodes) -> list[Row]:
    """See `measure`."""
    jobs, rounds = run.size(BATCH, 5), run.size(10, 1)
    spark = session()
    try:
        run_jobs(spark.sparkContext, jobs)
        baselines, ours, seen = [], [], []
        for _ in range(rounds):
            baselines.append(run_jobs(spark.sparkContext, jobs))
            with JobRecorder(spark, cluster.location, cluster=CLUSTER, spool=run.folder, strict=True):
                ours.append(run_jobs(spark.sparkContext, jobs))
        with JobRecorder(spark, cluster.location, cluster=CLUSTER, spool=run.folder, strict=True):
            seen = seconds_until_seen(spark.sparkContext, cluster, jobs)
    finally:
        spark.stop()
    notes = {"99 of 100, seconds": percentile(seen, 99), "jobs": float(jobs)}
    added = added_row(baselines, ours, jobs * rounds)
    job = statistics.median(baselines) / 1000
    return [
        msgspec.structs.replace(added, name="Two-task jobs recorded into three nodes"),
        absolute_row("From a job's end until it is seen", "s", [job], [statistics.median(seen)], "at most", 2, notes),
    ]


def measure(run: Run) -> list[Row]:
    """Two rows: what the recorder adds to a job, and how soon a job is seen."""
    with nodes(run.root(), 3, run.root()) as cluster:
        return one_driver(run, cluster)
