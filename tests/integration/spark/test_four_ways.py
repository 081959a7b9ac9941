"""One application by recorder and by follower, into a root and into a cluster: four times the same tables."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvwal.spark.tables.catalogue import TABLES
from tests.support.cli import kvwal as command
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running
from tests.support.recording.follow_command import follow_command
from tests.support.recording.one_sided import ONE_SIDED
from tests.support.spark import environment

pytestmark = [needs_hazelcast, pytest.mark.long]
ROOT = Path(__file__).resolve().parent.parent.parent.parent
KINDS = {"spark_apps": "app", "spark_executors": "executor", "spark_jobs": "job"}
"""The tables of the kinds that have fields in `ONE_SIDED`."""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    """Two clusters of one node: both ways write the same keys."""
    with running(tmp_path / "recorded") as recorded, running(tmp_path / "followed") as followed:
        yield recorded, followed


def rows(location: str | Path, table: str, app: str) -> list[dict[str, Any]]:
    """The rows of an application, without what a recorder and an event log tell in different ways."""
    asked = f"SELECT * FROM {table} ORDER BY ALL"
    names = ("--cluster", CLUSTER) if str(location).startswith("kvwal://") else ()
    ran = command("query", location, asked, "--json", *names)
    assert ran.code == 0, ran.err
    found = [row for row in map(json.loads, ran.out.splitlines()) if row["app"] == app]
    left_out = ONE_SIDED.get(KINDS.get(table, ""), set())
    return [{name: value for name, value in row.items() if name not in left_out} for row in found]


def follow(location: str | Path, logs: Path, app: str) -> None:
    """Follow the folder of the log until it is read to its end."""
    names = ["--cluster", CLUSTER] if str(location).startswith("kvwal://") else []
    with subprocess.Popen(follow_command(location, logs, *names), stderr=subprocess.PIPE) as follower:
        assert follower.stderr is not None
        try:
            said = []
            for line in follower.stderr:
                said.append(line)
                if b"read to its end" in line:
                    break
            else:
                raise AssertionError(b"".join(said).decode())
            follower.send_signal(signal.SIGTERM)
            assert follower.wait() == 0
        finally:
            follower.kill()


@pytest.mark.parametrize("name", ["flights", "streaming"])
def test_four_ways_give_the_same_tables(nodes: tuple[Node, Node], tmp_path: Path, name: str) -> None:
    recorded, followed = nodes
    out = tmp_path / "out"
    driver = subprocess.run(
        [sys.executable, "-m", "tests.support.recording.four_ways", name, str(out), recorded.address],
        env=environment(ROOT), check=False, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert driver.returncode == 0, driver.stderr[-4_000:]
    app = driver.stdout.split()[0]
    places: list[str | Path] = [f"kvwal://{followed.address}", tmp_path / "by-log"]
    for place in places:
        follow(place, out / "logs", app)
    for table in TABLES:
        expected = rows(out / "root", table, app)
        for place in (f"kvwal://{recorded.address}", *places):
            assert rows(place, table, app) == expected, (table, place)
        assert expected or table in ("spark_rdds", "spark_streams", "spark_batches", "spark_reads_writes"), table
