"""The recorder into a cluster: equal records, nothing lost when the cluster goes away, and no spool left behind."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import kvwal
from kvwal.spark import JobRecorder, index
from tests.support.cli import kvwal as command
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast
from tests.support.polling import until
from tests.support.spark import Written

pytestmark = needs_hazelcast


def run_jobs(spark: Any, count: int) -> None:
    for _ in range(count):
        spark.range(0, 10, 1, 2).collect()


def application(node: Node, app: str) -> Any:
    with kvwal.connect(node.address, cluster=CLUSTER) as store:
        return store.map("spark").get(f"{app}/app")


def jobs_of(node: Node, app: str) -> int:
    """The jobs that are recorded; 0 before the application is."""
    return int((application(node, app) or {"jobs": 0})["jobs"])


def test_event_logs_give_a_cluster_and_a_folder_the_same_records(written: Written, node: Node, tmp_path: Path) -> None:
    names = ("--cluster", CLUSTER)
    cluster = f"kvwal://{node.address}"
    for location in (cluster, tmp_path):
        for log in (written.plain, written.plain):  # the second run reads on, and finds nothing
            assert command("record", location, log, *names).code == 0
    for asked in (
        ("jobs", "--json"),
        ("jobs", written.app, "--json"),
        ("jobs", "--failed", "--json"),
        # The marks of the index differ: a node of the folder has one, and the cluster.
        *(
            ("scan", "spark", "--prefix", prefix, "--json")
            for prefix in (written.app, f"=app/{written.app}", "=failed/")
        ),
    ):
        assert command(asked[0], cluster, *asked[1:], *names) == command(asked[0], tmp_path, *asked[1:], *names)


def test_a_connected_store_answers_sql_as_an_open_one_does(written: Written, node: Node, tmp_path: Path) -> None:
    for location in (f"kvwal://{node.address}", tmp_path):
        assert command("record", location, written.plain, "--cluster", CLUSTER).code == 0
    with (
        kvwal.connect(node.address, cluster=CLUSTER) as cluster,
        kvwal.open(tmp_path, cluster=CLUSTER, read_only=True) as folder,
    ):
        for statement in (
            f"SELECT name, status, duration_ms FROM spark_jobs WHERE app = '{written.app}' ORDER BY id",
            f"SELECT key, value FROM spark WHERE key LIKE '{written.app}/job/%' ORDER BY key",
            "SELECT a.name, count(*) AS jobs FROM spark_apps a JOIN spark_jobs USING (app)"
            f" WHERE app = '{written.app}' GROUP BY 1",
        ):
            answer = cluster.sql(statement)
            assert len(answer) > 0
            assert answer == folder.sql(statement)
        tables = [kvwal.spark.table(store, "jobs", ["app", "name", "started"]) for store in (cluster, folder)]
        of_both = [pc.equal(found["app"], written.app) for found in tables]
        assert tables[0].filter(of_both[0]) == tables[1].filter(of_both[1])
        with pytest.raises(kvwal.ConfigError, match="gives no table of all changes"):
            cluster.sql("SELECT * FROM spark_history")
        with pytest.raises(kvwal.ConfigError, match="no_such_column"):
            cluster.sql("SELECT no_such_column FROM spark")


def test_a_driver_records_into_a_cluster_and_leaves_no_node_and_no_spool(
    spark: Any, node: Node, tmp_path: Path
) -> None:
    app = spark.sparkContext.applicationId
    with kvwal.connect(node.address, cluster=CLUSTER) as store:
        store.map("spark").clear()  # so that this recorder is the first one of the cluster, which marks the index
    with JobRecorder(spark, f"kvwal://{node.address}", cluster=CLUSTER, spool=tmp_path, strict=True) as recorder:
        run_jobs(spark, 3)
        ran = command("record", f"kvwal://{node.address}", "--cluster", CLUSTER, "--spool", tmp_path)
        assert (ran.code, ran.err) == (0, f"{app} is still recording.\n")
    assert recorder.failure is None
    recorded = application(node, app)
    assert (recorded["jobs"], recorded["status"]) == (3, "SUCCEEDED")
    with kvwal.connect(node.address, cluster=CLUSTER) as store:
        marks = [key for key in store.map("spark") if index.is_mark(key)]
        assert marks == [index.mark_key(index.CLUSTER)]
    assert not list((tmp_path / "_spark").glob("*"))
    assert {path.name for path in (node.root / "default" / CLUSTER / "spark").iterdir()} == {"node-1"}


@pytest.mark.long
def test_what_a_cluster_did_not_take_is_read_from_the_spool_once(
    spark: Any, node: Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = spark.sparkContext.applicationId
    before = jobs_of(node, app)
    location = f"kvwal://{node.address}"
    recorder = JobRecorder(spark, location, cluster=CLUSTER, spool=tmp_path, timeout=1.0).start()
    node.kill()
    run_jobs(spark, 3)
    with caplog.at_level(logging.ERROR):
        recorder.close()
    assert isinstance(recorder.failure, kvwal.KvwalError)
    assert f"kvwal record {location} --cluster {CLUSTER} --namespace default --spool {tmp_path}" in caplog.text
    assert command("record", location, "--cluster", CLUSTER, "--spool", tmp_path).code == 3
    node.start()
    for events in (True, False):
        ran = command("record", location, "--cluster", CLUSTER, "--spool", tmp_path, "--json")
        assert (ran.code == 0) == events, ran.err
        assert bool(ran.out and json.loads(ran.out)["events"]) == events
    assert jobs_of(node, app) == before + 3
    assert not list((tmp_path / "_spark").glob("*"))


@pytest.mark.long
@pytest.mark.parametrize("away_at_start", [False, True])
def test_a_cluster_that_was_away_has_the_records_before_the_driver_ends(
    spark: Any, node: Node, tmp_path: Path, away_at_start: bool
) -> None:
    """Every member is killed, while the driver runs or before, and started again. The driver goes on all the time."""
    app = spark.sparkContext.applicationId
    before = jobs_of(node, app)
    if away_at_start:
        node.kill()
    recorder = JobRecorder(spark, f"kvwal://{node.address}", cluster=CLUSTER, spool=tmp_path, timeout=2.0).start()
    if not away_at_start:
        run_jobs(spark, 1)
        until(lambda: jobs_of(node, app) == before + 1 or None)
        node.kill()
    run_jobs(spark, 2)
    until(lambda: recorder.stats()["waiting"])
    assert recorder.stats()["spool_bytes"] > 0
    node.start()
    expected = before + (2 if away_at_start else 3)
    until(lambda: jobs_of(node, app) == expected or None)
    assert recorder.recording
    assert recorder.failure is None
    recorder.close()
    assert recorder.failure is None
    assert not list((tmp_path / "_spark").glob("*"))
