"""`spark.readStream.format("kvwal")` of a running cluster: each change once, over restarts, limits and a killed member."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import kvwal
import kvwal.spark
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, needs_hazelcast
from tests.support.datasource.streams import Stream, finish, patiently

pytestmark = [needs_hazelcast, pytest.mark.long]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark-streams.md"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("three"), 3, config="[log]\narchive_seconds = 3600\n") as three:
        yield three


def test_every_put_comes_once_over_restarts_and_a_killed_member(
    spark: SparkSession, three: Cluster, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    stream = Stream(spark, checkpoint, store=three.location, cluster=CLUSTER, maxRowsPerTrigger="50")

    def keys() -> list[str]:
        return sorted(row.key for row in stream.rows)

    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        jobs = store.map("jobs")
        for number in range(120):
            jobs[f"job-{number:03}"] = {"n": number}
        stream.run()
        assert keys() == [f"job-{number:03}" for number in range(120)]
        assert max(map(len, stream.batches.values())) <= 50
        for number in range(120, 160):
            jobs[f"job-{number:03}"] = {"n": number}
        stream.fails_at = max(stream.batches) + 1
        with pytest.raises(StreamingQueryException, match="the sink failed"):
            stream.run()
        stream.fails_at = None
        lost = three.nodes[2]
        lost.kill()  # the changes of the planned batch are on its disk only
        with pytest.raises(StreamingQueryException, match=r"ArchiveGap: .*node-3 is away"):
            stream.run()
        three.start()
        stream.run()
        once = [(row.node, row.sequence) for row in stream.rows]
        assert len(set(once)) == len(once)
        assert set(keys()) == {f"job-{number:03}" for number in range(160)}
        assert "kvwal://" not in "".join(path.read_text() for path in (checkpoint / "offsets").glob("[0-9]*"))


def test_a_business_that_is_not_there_is_named(spark: SparkSession, three: Cluster, tmp_path: Path) -> None:
    frame = spark.readStream.format("kvwal").options(store=three.location, cluster=CLUSTER, business="nowhere").load()
    written = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException, match=r"ConfigError: .*has no map 'nowhere'"):
        finish(written)


def test_the_lines_of_the_page_run(spark: SparkSession, three: Cluster, tmp_path: Path) -> None:
    names: dict[str, Any] = {
        "spark": spark,
        "address": three.location,
        "cluster": CLUSTER,
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        store.map("orders").put_many({"a": 1, "b": 2})
        blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        for lines in [lines for lines in blocks if "address" in lines]:
            patiently(partial(exec, lines, names))
    assert sorted((row.key, row.value) for row in names["found"].collect()) == [("a", "1"), ("b", "2")]
