"""How the event log beside this file was made: `PYTHONPATH=. python tests/golden/lineage/make.py`, with the pinned Spark.

One application reads and writes tables and files in every way that needs no jars besides Spark's own, and stops two streams
within a batch. Of its event log only the fields that records are made of are kept, and its folder is called /data.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.support.spark import drain, session

HERE = Path(__file__).resolve().parent
DERBY = "org.apache.derby.jdbc.EmbeddedDriver"
DROPPED = {
    "SparkListenerTaskStart", "SparkListenerBlockUpdated", "SparkListenerUnpersistRDD", "SparkListenerEnvironmentUpdate",
    "SparkListenerTaskGettingResult",
}  # fmt: skip
CUT = {
    "details", "Details", "Stack Trace", "Full Stack Trace", "modifiedConfigs", "sparkPlanInfoString", "Callsite",
    "Task Executor Metrics", "Accumulator Updates", "Log Urls", "Attributes",
}  # fmt: skip
PROPERTIES = ("spark.job", "spark.sql.execution", "sql.streaming", "streaming.sql", "callSite.short")


def settings(folder: Path) -> dict[str, str]:
    """An event log, a catalog of Hive in memory, and a catalog of a database in memory."""
    return {
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": (folder / "logs").as_uri(),
        "spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true", "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.sql.catalog.shop": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "spark.sql.catalog.shop.url": "jdbc:derby:memory:shop;create=true", "spark.sql.catalog.shop.driver": DERBY,
    }  # fmt: skip


Steps = dict[str, Callable[[], Any]]
"""What the application does, by the description of its jobs."""


def first_steps(spark: SparkSession, data: str) -> Steps:
    """The files and the table that the other steps read."""
    return {
        "files": lambda: spark.range(0, 100, 1, 2).withColumn("k", f.col("id") % 5).write.parquet(f"{data}/numbers"),
        "saveAsTable": lambda: spark.read.parquet(f"{data}/numbers").write.saveAsTable("sales"),
    }


def steps(spark: SparkSession, data: str) -> Steps:
    """Tables of the catalog, of Hive and of a database, a cache, and files of RDDs."""
    sql, context = spark.sql, spark.sparkContext
    cached = sql("SELECT * FROM sales WHERE k = 2").cache()
    options = {"url": "jdbc:derby:memory:shop", "dbtable": "APP.RETURNS", "driver": DERBY}
    return {
        "create as select": lambda: sql("CREATE TABLE copies USING orc AS SELECT * FROM sales WHERE k > 1"),
        "insert": lambda: sql("INSERT INTO copies SELECT * FROM sales"),
        "empty table": lambda: sql("CREATE TABLE parts (id BIGINT, k BIGINT) USING parquet PARTITIONED BY (k)"),
        "insert overwrite": lambda: sql("INSERT OVERWRITE parts SELECT * FROM sales"),
        "insertInto": lambda: spark.table("sales").write.insertInto("copies"),
        "join": lambda: sql("SELECT count(*) FROM sales JOIN copies USING (id) JOIN parts USING (id)").collect(),
        "hive table": lambda: sql("CREATE TABLE hv (id BIGINT, k BIGINT) STORED AS TEXTFILE"),
        "hive insert": lambda: sql("INSERT INTO hv SELECT * FROM sales"),
        "hive read": lambda: sql("SELECT sum(id) FROM hv").collect(),
        "hive create as select": lambda: sql("CREATE TABLE hc STORED AS TEXTFILE AS SELECT * FROM sales"),
        "cache filled": cached.count,
        "cache read": lambda: cached.groupBy("k").sum("id").collect(),
        "cache read twice": lambda: cached.join(cached.withColumnRenamed("k", "again"), "id").count(),
        "text written": lambda: context.parallelize(range(50), 2).map(str).saveAsTextFile(f"{data}/text"),
        "text read": lambda: context.textFile(f"{data}/text").map(lambda line: (len(line), 1)).reduceByKey(max).count(),
        "texts read": lambda: context.textFile(f"{data}/text").union(context.textFile(f"{data}/text/part-00000")).count(),
        "pickles written": lambda: context.parallelize(range(5), 1).saveAsPickleFile(f"{data}/pickles"),
        "pickles read": lambda: context.pickleFile(f"{data}/pickles").count(),
        "catalog table": lambda: sql("CREATE TABLE shop.APP.ORDERS (id BIGINT, k BIGINT)"),
        "catalog insert": lambda: sql("INSERT INTO shop.APP.ORDERS SELECT * FROM sales"),
        "catalog read": lambda: sql("SELECT sum(id) FROM shop.APP.ORDERS").collect(),
        "catalog create as select": lambda: sql("CREATE TABLE shop.APP.COPIES AS SELECT * FROM sales"),
        "jdbc write": lambda: spark.table("sales").write.format("jdbc").options(**options).save(),
        "jdbc read": lambda: spark.read.format("jdbc").options(**options).load().agg(f.sum("id")).collect(),
        "no sink": lambda: spark.table("sales").write.format("noop").mode("overwrite").save(),
        "connector": lambda: _read_by_connector(spark, data),
    }  # fmt: skip


def _read_by_connector(spark: SparkSession, data: str) -> None:
    spark.conf.set("spark.sql.sources.useV1SourceList", "")
    spark.read.parquet(f"{data}/numbers").write.json(f"{data}/json")
    spark.conf.unset("spark.sql.sources.useV1SourceList")


def streams(spark: SparkSession, data: str) -> None:
    """Two streams that are stopped while a task runs: in a batch, and in a function of the program that a batch calls."""
    spark.sparkContext.setLocalProperty("spark.job.description", None)
    endless = f.udf(lambda n: threading.Event().wait() or n, "long")
    read = spark.readStream.schema("id bigint, k bigint").parquet(f"{data}/numbers")
    tracker = spark.sparkContext.statusTracker()
    for name in ("stopped", "stopped inside"):
        stream = read.writeStream.foreachBatch(lambda rows, batch: rows.select(endless("id")).collect())
        if name == "stopped":
            stream = read.select(endless("id")).writeStream.format("noop")
        query = stream.queryName(name).start()
        while not any(
            (info := tracker.getStageInfo(stage)) and info.numActiveTasks for stage in tracker.getActiveStageIds()
        ):
            pass
        query.stop()


def trimmed(value: Any) -> Any:
    """An event without the fields that no record is made of, with short properties."""
    if isinstance(value, list):
        return [trimmed(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: trimmed(item) for name, item in value.items() if name not in CUT}
    if "Properties" in kept:
        kept["Properties"] = {
            name: item for name, item in (kept["Properties"] or {}).items() if name.startswith(PROPERTIES)
        }
    return kept


def _anywhere(line: str, place: str) -> str:
    """A line without the names of the machine that the application ran on."""
    here = str(HERE.parent.parent.parent)
    return line.replace(place, "/data").replace("/data/data", "/data").replace(here, "/app")


def main() -> None:
    """Run the application, and write its event log here."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "logs").mkdir()
        spark = session("lineage", **settings(folder))
        for make in (first_steps, steps):
            for name, step in make(spark, str(folder / "data")).items():
                spark.sparkContext.setJobDescription(name)
                step()
        streams(spark, str(folder / "data"))
        drain(spark)
        spark.stop()
        (log,) = (folder / "logs").iterdir()
        events = [json.loads(_anywhere(line, place)) for line in log.open()]
    lines = [json.dumps(trimmed(event), separators=(",", ":")) for event in events if event["Event"] not in DROPPED]
    (HERE / "local-1.zstd").write_bytes(zstandard.ZstdCompressor(level=19).compress("\n".join([*lines, ""]).encode()))


if __name__ == "__main__":
    main()
