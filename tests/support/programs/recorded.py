"""An application that stops at named points, recorded into a cluster: `python -m … LOCATION SPOOL FOLDER [later]`.

At each point of `POINTS` it prints the point's name, and goes on when it reads a line. It leaves Spark's own event log under
FOLDER/logs, and the answers of Spark's REST API under FOLDER/rest. It prints its id first, and the recorder's `stats()` last.
With `later` the recorder starts in the middle of a job, and the application stops before that.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from time import sleep
from typing import Any

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kvwal.spark import JobRecorder
from kvwal.spark.eventlog.logs import LocalEventLog
from kvwal.spark.recording import recording
from tests.support.cluster.nodes import CLUSTER
from tests.support.recording.rest_rows import REST_SETTINGS, write_answers
from tests.support.spark import drain, session

POINTS = ("before the first job", "during a job", "between jobs", "at the end", "during stop")
"""At the last one the recorder has written how the application ended, and has not been told yet to deliver the rest."""
LATER = "before the recorder"
SMALL_JOBS = 8


def stop_at(point: str) -> None:
    """Say that the application is at a point, and wait."""
    print(point, flush=True)
    sys.stdin.readline()


def stop_at_the_last_roll() -> None:
    """Stop at the last point when the recorder writes its last roll."""
    add_roll = recording.add_roll

    def add_last_roll(log: LocalEventLog, roll: int, events: list[dict[str, Any]]) -> None:
        add_roll(log, roll, events)
        stop_at(POINTS[-1])

    recording.add_roll = add_last_roll


def small_jobs(spark: SparkSession, name: str) -> None:
    """Jobs with a shuffle, one after the other."""
    spark.sparkContext.setJobDescription(name)
    for _ in range(SMALL_JOBS):
        spark.range(0, 100, 1, 2).groupBy((f.col("id") % 3).alias("k")).count().collect()


def begin_waiting_job(spark: SparkSession, go: Path) -> threading.Thread:
    """Begin a job of which one task has ended and the other waits for the file `go`."""

    def wait(n: int) -> int:
        while n == 1 and not go.exists():
            sleep(0.05)
        return n

    thread = threading.Thread(target=spark.sparkContext.parallelize(range(2), 2).map(wait).collect, daemon=True)
    thread.start()
    tracker = spark.sparkContext.statusTracker()
    while not any(_has_one_left(tracker.getStageInfo(stage)) for stage in tracker.getActiveStageIds()):
        sleep(0.05)
    drain(spark)
    return thread


def _has_one_left(stage: Any) -> bool:
    return stage is not None and stage.numCompletedTasks == 1


def fails_once(n: int) -> int:
    """The first attempt at the task of one partition fails."""
    context = TaskContext.get()
    if n == 3 and context is not None and context.attemptNumber() == 0:
        raise ValueError("the first time")
    return n


def main(location: str, spool: Path, folder: Path, *, later: bool) -> None:
    """Run the application."""
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    spark = session("kills", **{
        "spark.master": "local[2,2]", "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false", "spark.eventLog.dir": logs.as_uri(),
        **REST_SETTINGS,
    })  # fmt: skip
    print(spark.sparkContext.applicationId, flush=True)
    if later:
        small_jobs(spark, "before the recorder")
        early = begin_waiting_job(spark, folder / "go early")
        stop_at(LATER)
    recorder = JobRecorder(spark, location, cluster=CLUSTER, spool=spool, timeout=5.0).start()
    drain(spark)
    stop_at("before the first job")
    if later:
        (folder / "go early").touch()
        early.join()
    small_jobs(spark, "first jobs")
    waiting = begin_waiting_job(spark, folder / "go")
    stop_at("during a job")
    (folder / "go").touch()
    waiting.join()
    spark.range(0, 1_000, 1, 3).withColumn("k", f.col("id") % 7).write.parquet(str(folder / "numbers"))
    spark.sparkContext.setJobDescription("tried again")
    spark.sparkContext.parallelize(range(4), 2).map(fails_once).collect()
    spark.sparkContext.setJobDescription("fails")
    try:
        spark.range(0, 4, 1, 1).select(f.udf(lambda n: 1 // n)("id")).collect()
    except PySparkException:
        spark.sparkContext.setJobDescription(None)
    drain(spark)
    stop_at("between jobs")
    small_jobs(spark, "last jobs")
    drain(spark)
    write_answers(spark, folder / "rest")
    stop_at("at the end")
    stop_at_the_last_roll()
    spark.stop()
    recorder.close()
    print(json.dumps(recorder.stats()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), later=sys.argv[4:] == ["later"])
