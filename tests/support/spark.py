"""A real Spark, and what it wrote: the event logs of one application in every format, and of one whose rolls were compacted."""

from __future__ import annotations

import copy
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kvwal.spark import JobRecorder
from tests.support.java.drivers import prepare_drivers

# The workers' Python; a setting of that name would only be read by spark-submit.
os.environ["PYSPARK_PYTHON"] = sys.executable

CODECS = ("zstd", "lz4", "snappy", "lzf")
LARGE = "x" * 2_000_000  # a description that fills a roll of 10 MiB within one job
LARGE_JOBS = 5
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


class Written(NamedTuple):
    """Event logs, and the root that the recorder wrote meanwhile. `rolled` are the rolls before `compacted` replaced them."""

    app: str
    plain: Path
    compressed: dict[str, Path]
    rolling_app: str
    rolled: Path
    compacted: Path
    root: Path


def session(name: str, **settings: str) -> SparkSession:
    """A session of its own; the one before must be stopped."""
    prepare_drivers()
    builder = SparkSession.builder.master("local[2]").appName(name)
    for setting, value in {**SETTINGS, **settings}.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def write_logs(folder: Path, alongside: Callable[[Path, Path], None]) -> Written:
    """Run two applications, one after the other, both recorded into one root.

    `alongside(plain log of the first, root)` is called while the second is being recorded.
    """
    root, plain = folder / "root", folder / "plain"
    plain.mkdir()
    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}
    spark = session(
        "first", **settings, **{"spark.eventLog.dir": plain.as_uri(), "spark.eventLog.rolling.enabled": "false"}
    )
    app = spark.sparkContext.applicationId
    listeners = [attach(spark, folder / codec, codec) for codec in CODECS]
    with JobRecorder(spark, root):
        work(spark, folder / "data")
        spark.stop()
    for listener in listeners:
        listener.stop()
    (log,) = plain.iterdir()
    rolls = folder / "rolls"
    rolls.mkdir()
    spark = session("second", **settings, **{
        "spark.eventLog.dir": rolls.as_uri(), "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": "10m", "spark.kvwal.store": str(folder / "by-configuration"),
    })  # fmt: skip
    rolling_app = spark.sparkContext.applicationId
    with JobRecorder(spark, root):
        for _ in range(LARGE_JOBS):
            spark.sparkContext.setJobDescription(LARGE)
            spark.range(0, 10, 1, 2).collect()
        alongside(log, root)
    rolled = shutil.copytree(next(rolls.iterdir()), folder / "before-compaction" / f"eventlog_v2_{rolling_app}")
    drain(spark)
    shutil.copytree(next(rolls.iterdir()), rolled, dirs_exist_ok=True)
    compact(spark, rolls, rolling_app)
    compressed = {codec: next((folder / codec).iterdir()) for codec in CODECS}
    return Written(app, log, compressed, rolling_app, rolled, next(rolls.iterdir()), root)


def comparable(values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Records of a kind, of their jobs' stacks only the top: Spark's driver adds its own frames before or after it logs them."""
    found = {key: copy.deepcopy(value) for key, value in values.items() if value["kind"] == kind}
    for value in found.values():
        if kind == "job" and value["error"]:
            value["error"]["stack"] = value["error"]["stack"].split("\n")[:3]
    return found


def drain(spark: SparkSession) -> None:
    """Wait until every listener has seen what happened."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)


def attach(spark: SparkSession, folder: Path, codec: str) -> Any:
    """One more of Spark's own event log writers, into a folder, compressed."""
    folder.mkdir()
    context, jvm = spark.sparkContext._jsc.sc(), spark.sparkContext._jvm
    conf = context.conf().clone()
    for name, value in {"compress": "true", "compression.codec": codec, "rolling.enabled": "false"}.items():
        conf.set(f"spark.eventLog.{name}", value)
    place, none = jvm.java.net.URI(folder.as_uri()), context.applicationAttemptId()
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        context.applicationId(), none, place, conf, context.hadoopConfiguration()
    )
    listener.start()
    some = jvm.scala.Option.apply(context.applicationId())
    listener.onApplicationStart(
        jvm.org.apache.spark.scheduler.SparkListenerApplicationStart(
            context.appName(), some, context.startTime(), context.sparkUser(), none, none, none
        )
    )
    context.listenerBus().addToEventLogQueue(listener)
    return listener


def compact(spark: SparkSession, rolls: Path, app: str) -> None:
    """What the history server does with finished rolls: merge all but the last, and leave out what is over."""
    context, jvm = spark.sparkContext._jsc.sc(), spark.sparkContext._jvm
    folder = jvm.org.apache.hadoop.fs.Path(f"{rolls.as_uri()}/eventlog_v2_{app}")
    system = folder.getFileSystem(context.hadoopConfiguration())
    history = jvm.org.apache.spark.deploy.history
    files = history.EventLogFileReader.apply(system, folder).get().listEventLogFiles()
    compactor = history.EventLogFileCompactor(context.conf(), context.hadoopConfiguration(), system, 1, 0.0)
    assert "SUCCESS" in compactor.compact(files).toString()


def work(spark: SparkSession, data: Path) -> None:
    """Jobs of every kind: files written and read, a join, a shuffle with one slow task, a failure, a stream."""
    context = spark.sparkContext
    context.setJobDescription("write numbers")
    numbers = spark.range(0, 20_000, 1, 4).withColumn("k", f.col("id") % 10)
    numbers.write.parquet(str(data / "numbers"))
    context.setJobDescription("join and sum")
    read = spark.read.parquet(str(data / "numbers"))
    sums = read.join(numbers.groupBy("k").count(), "k").groupBy("k").agg(f.sum("id"))
    sums.write.json(str(data / "sums"))
    context.setJobDescription("one slow task")
    context.parallelize(range(8), 8).map(lambda n: (n, sum(range(6_000_000 if n == 5 else 10)))).reduceByKey(
        max
    ).collect()
    context.setJobDescription("fails on purpose")
    try:
        spark.range(4).select(f.udf(lambda n: 1 // n)("id")).collect()
    except PySparkException:
        context.setJobDescription(None)
    stream = spark.readStream.schema(read.schema).option("maxFilesPerTrigger", 2).parquet(str(data / "numbers"))
    query = stream.groupBy("k").count().writeStream.queryName("counts").format("memory").outputMode("complete")
    query.trigger(availableNow=True).start().awaitTermination()


ENDING_DRIVER = """
import os, signal, sys
from tests.support.spark import session
from kvwal.spark import JobRecorder, record
root = sys.argv[1]
spark = session("ending", **{"spark.kvwal.root": root})
def work():
    spark.range(0, 10, 1, 2).collect()
"""
"""Begins an application; what follows says how its Python ends."""
KILLED_DRIVER = """
import os, signal, sys, threading
from tests.support.spark import drain, session
from kvwal.spark import JobRecorder
spark = session("killed")
JobRecorder(spark, sys.argv[1]).start()
for _ in range(5):
    spark.range(0, 10, 1, 2).collect()
forever = spark.range(0, 1, 1, 1).rdd.map(lambda row: threading.Event().wait())
threading.Thread(target=forever.count, daemon=True).start()
while 5 not in spark.sparkContext.statusTracker().getActiveJobsIds():  # the job before may still count as active
    pass
drain(spark)
os.killpg(0, signal.SIGKILL)
"""


def environment(here: Path) -> dict[str, str]:
    """For a process of its own that imports what the tests import, and may start a Spark."""
    prepare_drivers()
    return {**os.environ, "PYTHONPATH": str(here)}
