"""Spark applications whose records are compared with Spark's REST API: `python -m tests.support.recording.truth NAME FOLDER`.

Each leaves under FOLDER: `logs`, the event log that Spark wrote; `root`, what the recorder wrote; and one JSON file for each
answer of the REST API, asked when all jobs had ended and Spark's listeners had seen it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kvwal.spark import JobRecorder
from tests.support.recording.rest_rows import REST_SETTINGS, write_answers
from tests.support.spark import drain, session

SETTINGS = {
    **REST_SETTINGS,
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


def batch(spark: SparkSession, folder: Path) -> None:
    """Files, joins, shuffles, a cache, skipped stages, a task tried again, a failed job, tags, a pool and an accumulator."""
    context = spark.sparkContext
    numbers = spark.range(0, 2_000, 1, 3).withColumn("k", f.col("id") % 7)
    context.setJobDescription("write")
    numbers.write.partitionBy("k").parquet(str(folder / "numbers"))
    context.setJobDescription("join")
    context.addJobTag("nightly")
    context.setLocalProperty("spark.scheduler.pool", "reports")
    read = spark.read.parquet(str(folder / "numbers"))
    read.join(numbers.groupBy("k").count(), "k").groupBy("k").agg(f.sum("id")).write.json(str(folder / "sums"))
    context.removeJobTag("nightly")
    context.setLocalProperty("spark.scheduler.pool", None)
    context.setJobDescription("cache")
    cached = read.where("k > 2").cache()
    cached.count()
    cached.join(cached.withColumnRenamed("k", "again"), "id").count()
    context.setJobDescription("skipped stages")
    pairs = context.parallelize(range(100), 4).map(lambda n: (n % 5, n)).reduceByKey(max)
    pairs.collect()
    pairs.map(lambda pair: (pair[1] % 2, 1)).reduceByKey(min).collect()
    context.setJobDescription("tried again")
    context.parallelize(range(4), 2).map(_fails_once).collect()
    context.setJobDescription("fails")
    context.setJobGroup("group", "fails")
    try:
        spark.range(0, 4, 1, 1).select(f.udf(lambda n: 1 // n)("id")).collect()
    except PySparkException:
        context.setLocalProperty("spark.jobGroup.id", None)
    context.setJobDescription("text")
    context.parallelize(range(30), 2).map(str).saveAsTextFile(str(folder / "text"))
    context.textFile(str(folder / "text")).map(lambda line: (int(line) % 3, 1)).reduceByKey(max).collect()
    context.setJobDescription("observed")
    seen = f.count(f.lit(1)).alias("rows")
    spark.range(0, 100, 1, 2).observe("seen", seen).write.format("noop").mode("overwrite").save()
    context.setJobDescription("spills")
    context.setLocalProperty("spark.job.description", None)
    spark.range(0, 1_000, 1, 2).repartition(3, "id").sortWithinPartitions("id").write.format("noop").mode(
        "overwrite"
    ).save()


def _fails_once(n: int) -> int:
    context = TaskContext.get()
    if n == 3 and context is not None and context.attemptNumber() == 0:
        raise ValueError("the first time")
    return n


def streaming(spark: SparkSession, folder: Path) -> None:
    """A stream that ends, one that is stopped within a batch, one that is stopped within `foreachBatch`, and one that fails."""
    spark.range(0, 1_000, 1, 4).withColumn("k", f.col("id") % 10).write.parquet(str(folder / "numbers"))
    read = (
        spark.readStream.schema("id bigint, k bigint").option("maxFilesPerTrigger", 1).parquet(str(folder / "numbers"))
    )
    counts = read.groupBy("k").count().writeStream.queryName("counts").format("memory").outputMode("complete")
    finished = counts.trigger(availableNow=True).start()
    finished.awaitTermination()
    endless = f.udf(_wait, "long")
    slow = read.select(endless("id")).writeStream.queryName("stopped").format("noop").start()
    _stop_within_a_job(spark, slow)
    inner = read.writeStream.queryName("stopped inside").foreachBatch(
        lambda rows, batch: rows.select(endless("id")).collect()
    )
    _stop_within_a_job(spark, inner.start())
    failing = read.select(f.udf(lambda n: n // 0, "long")("id")).writeStream.queryName("fails").format("noop").start()
    with suppress(PySparkException):
        failing.awaitTermination()
    progress = {query.id: [json.loads(p.json) for p in query.recentProgress] for query in (finished, slow, failing)}
    (folder / "progress.json").write_text(json.dumps(progress))


def _wait(n: int) -> int:
    threading.Event().wait()
    return n


def _stop_within_a_job(spark: SparkSession, query: Any) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not any(
        tracker.getStageInfo(stage) and tracker.getStageInfo(stage).numActiveTasks
        for stage in tracker.getActiveStageIds()
    ):
        pass
    query.stop()


def cluster(spark: SparkSession, folder: Path) -> None:
    """Two executors: a copy of a slow task that wins, and an executor that is lost with the output of its tasks."""
    context = spark.sparkContext
    context.setJobDescription("speculation")
    context.parallelize(range(8), 8).map(_slow_at_first).collect()
    context.setJobDescription("a lost executor")
    once = folder / "killed"
    pairs = context.parallelize(range(40), 4).map(lambda n: (n, n)).reduceByKey(max, 4)
    pairs.collect()
    pairs.map(lambda pair: _kill_executor(once, pair)).collect()
    spark.range(0, 1_000, 1, 4).groupBy((f.col("id") % 3).alias("k")).count().write.parquet(str(folder / "counts"))
    _wait_for_executors(spark)  # the one in place of the lost one


def _slow_at_first(n: int) -> int:
    context = TaskContext.get()
    if n == 7 and context is not None and context.attemptNumber() == 0:
        threading.Event().wait()
    return n


def _kill_executor(once: Path, pair: tuple[int, int]) -> tuple[int, int]:
    """Kill the executor that this task runs in, the first time: the parent of the parent of Python is its JVM."""
    try:
        once.touch(exist_ok=False)
    except FileExistsError:
        return pair
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(daemon.rpartition(")")[2].split()[1]), 9)
    threading.Event().wait()
    return pair


APPLICATIONS: dict[str, tuple[Callable[[SparkSession, Path], None], dict[str, str]]] = {
    "batch": (batch, {"spark.master": "local[2,2]", "spark.scheduler.mode": "FAIR"}),
    "streaming": (streaming, {}),
    "cluster": (cluster, {
        "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2",
        "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.5",
        "spark.shuffle.io.maxRetries": "0",
    }),
}  # fmt: skip


def start_cluster(folder: Path) -> str:
    """A standalone master and two workers in the driver's own JVM, each worker on a loopback address of its own. Returns the
    master's address. Spark starts the copy of a slow task on another host only."""
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    SparkContext._ensure_initialized()
    jvm = SparkContext._jvm
    assert jvm is not None
    conf = jvm.org.apache.spark.SparkConf()
    deploy = jvm.org.apache.spark.deploy
    port = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1().address().port()
    masters = SparkContext._gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = f"spark://127.0.0.1:{port}"
    none = jvm.scala.Option.empty()
    for number in (1, 2):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            f"127.0.0.{number}", 0, 0, 1, 1024, masters, str(folder / "work"), none, conf, none
        )
    return str(masters[0])


def _wait_for_executors(spark: SparkSession) -> None:
    """Return when the driver and two executors are there, and Spark's listeners know them."""
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:
        pass
    drain(spark)


def main(name: str, folder: Path) -> None:
    """Run one application, recorded live, with its event log and its REST API."""
    work, settings = APPLICATIONS[name]
    logs = folder / "logs"
    logs.mkdir(parents=True)
    if name == "cluster":
        settings = {**settings, "spark.master": start_cluster(folder)}
    spark = session(name, **SETTINGS, **settings, **{"spark.eventLog.dir": logs.as_uri()})
    if name == "cluster":
        _wait_for_executors(spark)
    with JobRecorder(spark, folder / "root", strict=True):
        work(spark, folder)
        drain(spark)
        write_answers(spark, folder)
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
