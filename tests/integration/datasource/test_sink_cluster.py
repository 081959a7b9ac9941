"""The sink `kvwal` on a real Spark, into a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import kvwal
from kvwal.spark.state.records import PREFIX
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running
from tests.support.ports import free_port

pytestmark = [needs_hazelcast, pytest.mark.long]
LARGE = 30_000
"""Rows of about 250 bytes: two or more transactions."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("node")
    with running(folder / "root", more=["--archive", str(folder / "archive")]) as node:
        yield node


def test_rows_are_written_once_and_deleted_by_a_column(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    options: dict[str, Any] = {"store": f"kvwal://{node.address}", "cluster": CLUSTER, "business": "jobs"}

    def write(frame: Any, **more: str) -> None:
        frame.write.format("kvwal").options(**{**options, **more}).mode("append").save()

    write(spark.createDataFrame([("a", 1), ("b", 2), ("c", 3)], "key STRING, n INT"))
    write(spark.createDataFrame([("a", True)], "key STRING, deleted BOOLEAN"))
    shown = spark.read.format("kvwal").options(**options).load()
    assert {(row["key"], row["value"]) for row in shown.collect()} == {("b", '{"n":2}'), ("c", '{"n":3}')}
    large = spark.range(0, LARGE, 1, 2).selectExpr("concat('job-', id) AS key", "repeat('x', 180) AS v")
    write(large, business="large")
    (tmp_path / "in").mkdir()
    for number in range(2):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"key": "job-{number}", "n": {number}}}\n')
    for _ in range(2):
        arrived = (
            spark.readStream.schema("key STRING, n INT").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        )
        sink = arrived.writeStream.format("kvwal").options(**{**options, "business": "arrived"})
        query = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        last = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    with kvwal.connect(node.address, cluster=CLUSTER) as store:
        assert len(store.map("large")) == LARGE
        assert store.map("large")["job-7"] == {"v": "x" * 180}
        assert len(store.map("tmp.kvwal-staging")) == 0
        arrived_there = store.map("arrived")
        marks = [key for key in arrived_there if key.startswith(PREFIX)]
        assert (len(arrived_there), len(marks)) == (3, 1)
        assert [len(arrived_there.history(f"job-{number}")) for number in range(2)] == [1, 1]


def test_a_cluster_that_is_away_is_named(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1)], "key STRING, n INT")
    sink = frame.write.format("kvwal").options(
        store=f"kvwal://127.0.0.1:{free_port()}", cluster=CLUSTER, business="jobs"
    )
    with pytest.raises(PySparkException, match=r"ClusterUnreachable: .*no .*answers"):
        sink.mode("append").save()
