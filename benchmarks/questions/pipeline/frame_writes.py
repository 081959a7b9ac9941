"""The batch write of the data source, into a folder and into a cluster of one node, beside the same puts by one process."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import kvwal
from benchmarks.harness import Question, Row, Run, in_child, rate, ratio_row
from benchmarks.nodes import CLUSTER, nodes
from benchmarks.pipeline import by_hand
from benchmarks.pipeline.by_hand import BATCH, BUSINESS

QUESTION = Question(
    "frame_writes",
    "How fast does Spark write a DataFrame into a store?",
    "of a folder, put_many of 1,000 from one process; of a node, put_all of 1,000 by Hazelcast's own client.",
    "starting the session or the client, and a warm-up with a hundredth of the rows. The rows are in Parquet files before, or in"
    " the program's loop. A write of this size is many transactions.",
)
MODULE = "benchmarks.questions.pipeline.frame_writes"
WARM_UP = 100


def write_frame(store: str, cluster: str, count: int) -> float:
    """Rows a second of a write of `count` rows."""
    spark = by_hand.session()
    folder = tempfile.mkdtemp()
    columns = ("format_string('%09d', id) AS key", "id AS number", "'ok' AS state", f"'{by_hand.TEXT}' AS text")
    frames = {}
    for rows in (count // WARM_UP, count):
        spark.range(rows).selectExpr(*columns).write.parquet(f"{folder}/{rows}")
        frames[rows] = spark.read.parquet(f"{folder}/{rows}")
    options = {"store": store, "business": BUSINESS, "cluster": cluster}

    def write(rows: int) -> None:
        frames[rows].write.format("kvwal").options(**options).mode("append").save()

    write(count // WARM_UP)
    figure = rate(count, lambda: write(count))
    spark.stop()
    shutil.rmtree(folder)
    return figure


def put_many(root: str, count: int) -> float:
    """Puts a second of a program's own loop into a folder."""
    with kvwal.open(root) as store:
        puts = store.map(BUSINESS)

        def put(rows: int) -> None:
            for begin in range(0, rows, BATCH):
                puts.put_many({f"{n:09d}": by_hand.value(n) for n in range(begin, min(begin + BATCH, rows))})

        put(count // WARM_UP)
        return rate(count, lambda: put(count))


def put_all(address: str, count: int) -> float:
    """Puts a second of Hazelcast's client into a node, as JSON."""
    import hazelcast
    from hazelcast.core import HazelcastJsonValue

    client = hazelcast.HazelcastClient(cluster_name=CLUSTER, cluster_members=[address])
    puts: Any = client.get_map("plain").blocking()

    def put(rows: int) -> None:
        for begin in range(0, rows, BATCH):
            numbers = range(begin, min(begin + BATCH, rows))
            puts.put_all({f"{n:09d}": HazelcastJsonValue(by_hand.value(n)) for n in numbers})

    put(count // WARM_UP)
    figure = rate(count, lambda: put(count))
    client.shutdown()
    return figure


def measure(run: Run) -> list[Row]:
    """Two rows: rows a second into a folder, and into a node."""
    count = run.size(1_000_000, 10_000)
    folder = run.interleave(
        3, lambda: in_child(f"{MODULE}:put_many", root=str(run.root()), count=count),
        lambda: in_child(f"{MODULE}:write_frame", store=str(run.root()), cluster="local", count=count),
    )  # fmt: skip
    with nodes(run.root(), 1, run.root()) as one:
        node = run.interleave(
            3, lambda: in_child(f"{MODULE}:put_all", address=one.addresses[0], count=count),
            lambda: in_child(f"{MODULE}:write_frame", store=one.location, cluster=CLUSTER, count=count),
        )  # fmt: skip
    return [
        ratio_row("Batch write of 1M rows into a folder", "rows/s", *folder, "at least", 0.7),
        ratio_row("Batch write of 1M rows into a node", "rows/s", *node, "at least", 0.5),
    ]
