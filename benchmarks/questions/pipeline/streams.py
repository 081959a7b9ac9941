"""The streaming read of Spark: the time until a change is seen, and the changes a second, from a folder and from a node."""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, in_child, percentile, rate
from benchmarks.nodes import CLUSTER, Nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

QUESTION = Question(
    "streams",
    "How soon does a stream of Spark show a change, and how many a second does it read?",
    "a watch of the same map: the time until `next` returns the change, and the changes a second that its iterator gives.",
    "starting the session, and making the map. The stream is read with Spark's default trigger, on two cores.",
)
MODULE = "benchmarks.questions.pipeline.streams"
SCHEME = "kvwal://"
PAUSE_SECONDS = 0.05
BATCH = 2_000
TRIGGER_SECONDS = 0.5
"""What a change may take at most, as the next batch begins when the one before it has ended."""


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    from kvwal.spark import register

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def _changes(spark: SparkSession, location: str, **options: str) -> DataFrame:
    given = {"store": location, "business": "jobs", "cluster": _cluster(location), **options}
    stream = spark.readStream.format("kvwal").options(**given)
    return stream.schema("key STRING, at DOUBLE").load()


def _cluster(location: str) -> str:
    return CLUSTER if location.startswith(SCHEME) else "local"


def _store(location: str) -> Any:
    """A store that writes there."""
    if location.startswith(SCHEME):
        return kvwal.connect(location.removeprefix(SCHEME), cluster=CLUSTER)
    return kvwal.open(location)


def fill(location: str, count: int) -> str:
    """Put so many small values. Returns the position before them."""
    with _store(location) as store:
        position: str = store.map("jobs").watch().position
        for begin in range(0, count, BATCH):
            store.map("jobs").put_many(
                {f"job-{n:09}": {"at": float(n)} for n in range(begin, min(count, begin + BATCH))}
            )
        return position


def seen_by_stream(location: str, puts: int) -> list[float]:
    """The seconds from before each put until `foreachBatch` has its row. The puts begin when the stream has shown a first one."""
    spark, found, begun, ended = _session(), list[float](), threading.Event(), threading.Event()

    def take(batch: DataFrame, _: int) -> None:
        rows = batch.collect()
        found.extend(time.time() - row.at for row in rows if row.key.startswith("new-"))
        if rows:
            begun.set()
        if len(found) >= puts:
            ended.set()

    with _store(location) as store, tempfile.TemporaryDirectory() as checkpoint:
        position = store.map("jobs").watch().position
        changes = _changes(spark, location, after=position)
        query = changes.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()
        store.map("jobs").put("first", {"at": time.time()})
        _wait(query, begun)
        _put(store, puts)
        _wait(query, ended)
        query.stop()
    spark.stop()
    return found


def _wait(query: StreamingQuery, event: threading.Event) -> None:
    while not event.wait(1):
        if (error := query.exception()) is not None:
            raise error


def _put(store: Any, puts: int) -> None:
    for number in range(puts):
        store.map("jobs").put(f"new-{number:06}", {"at": time.time()})
        time.sleep(PAUSE_SECONDS)


def seen_by_watch(location: str, puts: int) -> list[float]:
    """The seconds from before each put until `next(watch)` has returned it, in another thread."""
    found = []
    with _store(location) as store:
        watch = store.map("jobs").watch()
        writer = threading.Thread(target=_put, args=[store, puts])
        writer.start()
        for _ in range(puts):
            change = next(watch)
            found.append(time.time() - json.loads(change.value)["at"])
        writer.join()
    return found


def read_by_stream(location: str, count: int, after: str) -> float:
    """The changes a second of a query that reads all that is there. It counts them."""
    spark, read = _session(), list[int]()
    spark.range(1).count()

    def take(batch: DataFrame, _: int) -> None:
        read.append(batch.count())

    with tempfile.TemporaryDirectory() as checkpoint:
        sink = (
            _changes(spark, location, after=after)
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", checkpoint)
        )
        figure = rate(count, lambda: sink.trigger(availableNow=True).start().awaitTermination())
    spark.stop()
    if sum(read) != count:
        raise AssertionError(f"{sum(read)} of {count} changes came")
    return figure


def read_by_watch(location: str, count: int, after: str) -> float:
    """The changes a second of a watch that reads all that is there."""
    with _store(location) as store:
        watch = store.map("jobs").watch(after=after)

        def read() -> None:
            left = count
            while left > 0:
                left -= len(watch.poll())

        return rate(count, read)


def _rows(run: Run, name: str, location: str, count: int, puts: int) -> list[Row]:
    after = in_child(f"{MODULE}:fill", location=location, count=count)
    speed = run.interleave(
        2,
        lambda: in_child(f"{MODULE}:read_by_watch", location=location, count=count, after=after),
        lambda: in_child(f"{MODULE}:read_by_stream", location=location, count=count, after=after),
    )
    slowest: list[float] = []

    def seen() -> float:
        found = in_child(f"{MODULE}:seen_by_stream", location=location, puts=puts)
        slowest.append(percentile(found, 99))
        return statistics.median(found)

    delay = run.interleave(
        2, lambda: statistics.median(in_child(f"{MODULE}:seen_by_watch", location=location, puts=puts)), seen
    )
    return [
        absolute_row(f"A put is seen by the stream of {name}, p50", "s", *delay, "at most", TRIGGER_SECONDS,
                     {"p99, s": statistics.median(slowest)}),
        absolute_row(f"A stream reads {name}", "changes/s", *speed, "at least", 50_000),
    ]  # fmt: skip


def measure(run: Run) -> list[Row]:
    """Two rows for the folder of a store, and two for a cluster of one node."""
    puts = run.size(200, 5)
    found = _rows(run, "a folder", str(run.root()), run.size(1_000_000, 2_000), puts)
    with ExitStack() as stack:
        nodes = Nodes(run.root(), 1, run.root())
        stack.callback(nodes.end)
        nodes.start()
        return found + _rows(run, "a node", nodes.location, run.size(1_000_000, 2_000), puts)
