"""The merge of an archive as one writes it by hand on Spark, for the questions about the pipeline, and their archives.

The merges by hand read the same objects with Spark's own reader, and check nothing. There is one node, so that the greatest
(timestamp, sequence) of a key is its latest row.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import kvwal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODULE = "benchmarks.pipeline.by_hand"
BUSINESS = "bench"
PLACE = {"namespace": "default", "cluster": "local", "business": BUSINESS}
CORES, MEMORY = 2, "4g"
BATCH = 1_000
TEXT = "x" * 60
MERGE, SOURCE = "kvwal_archive.spark.merge", "data source"
WAYS = ("window", "max_by", "struct")
LIVE = "NOT deleted AND (expires = 0 OR expires > unix_millis(current_timestamp()))"


def value(number: int) -> dict[str, object]:
    """The value of the put with this number: 100 bytes of JSON, more or less."""
    return {"number": number, "state": "ok", "text": TEXT}


def fill(root: str, archive: str, first: int, entries: int, keys: int) -> None:
    """Put so many entries of `keys` keys in turn, beginning with a number, and archive them."""
    with kvwal.open(root, archive=archive, flush="os") as store:
        puts = store.map(BUSINESS)
        for begin in range(first, first + entries, BATCH):
            numbers = range(begin, min(begin + BATCH, first + entries))
            puts.submit_many({f"{number % keys:09d}": value(number) for number in numbers})
        store.archive()


def session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session in this process with two cores and these settings, which knows the data source, and has run a job."""
    from pyspark.sql import SparkSession

    from kvwal.spark import register

    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", str(4 * CORES))
    for name, setting in (settings or {}).items():
        builder = builder.config(name, setting)
    spark = builder.config("spark.driver.memory", MEMORY).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    spark.range(1).count()
    return spark


@contextmanager
def timed_session() -> Iterator[tuple[SparkSession, dict[str, float]]]:
    """A session for the block. Behind it, the dictionary has the seconds of its `start`, and the `seconds` of the block."""
    times: dict[str, float] = {}
    started = time.perf_counter()
    spark = session()
    ready = time.perf_counter()
    yield spark, times
    times |= {"start": ready - started, "seconds": time.perf_counter() - ready}
    spark.stop()


def latest(spark: SparkSession, archive: str, way: str) -> DataFrame:
    """The latest row of every key that is there: `key`, `value`, `timestamp`; of the data source and beside it, as text."""
    if way == MERGE:
        from kvwal_archive.spark import merge

        return merge(spark, archive, **PLACE).select("key", "value", "timestamp")
    if way == SOURCE:
        options = {"archive": archive, "business": BUSINESS}
        return spark.read.format("kvwal").options(**options).load().select("key", "value", "timestamp")
    return _by_hand(spark, archive, way).where(LIVE).select("key", "value", "timestamp")


def _by_hand(spark: SparkSession, archive: str, way: str) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as of

    rows = spark.read.option("recursiveFileLookup", "true").parquet(f"{archive}/{'/'.join(PLACE.values())}")
    if way == "window":
        newest_first = Window.partitionBy("key_class", "key").orderBy(of.desc("timestamp"), of.desc("sequence"))
        return rows.withColumn("number", of.row_number().over(newest_first)).where("number = 1")
    rows = rows.selectExpr("key_class", "key", "struct(timestamp, sequence, value, deleted, expires) AS row")
    newest = of.max("row") if way == "struct" else of.max_by("row", of.expr("struct(row.timestamp, row.sequence)"))
    return rows.groupBy("key_class", "key").agg(newest.alias("row")).select("key", "row.*")


def run(archive: str, way: str, keys: int, into: str | None) -> dict[str, float]:
    """The seconds of a session's start, and until all rows are in Parquet files; without a folder for them, until they were made.

    Raises AssertionError if rows are missing or too many. They are counted afterwards.
    """
    started = time.perf_counter()
    spark = session()
    ready = time.perf_counter()
    frame = latest(spark, archive, way)
    if into is None:
        rows = frame.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value", "timestamp")
        rows.write.format("noop").mode("overwrite").save()
    else:
        frame.write.parquet(into)
    seconds = time.perf_counter() - ready
    found = frame.count() if into is None else spark.read.parquet(into).count()
    spark.stop()
    if into is not None:
        shutil.rmtree(into)
    if found != keys:
        raise AssertionError(f"{way}: {found} of {keys} keys came back")
    return {"start": ready - started, "seconds": seconds}
