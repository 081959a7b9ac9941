"""Logs of other products imported into a running cluster: maps go there, events of Flume into folders only."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import kvwal
from tests.support.cli import kvwal as run
from tests.support.cluster.nodes import CLUSTER, needs_hazelcast, running
from tests.support.java.golden_logs import Found, nifi, seatunnel
from tests.support.java.logs import GOLDEN

pytestmark = needs_hazelcast
NAMES = ("--cluster", CLUSTER)


def test_maps_are_imported_into_a_cluster_and_keys_that_are_gone_are_deleted(tmp_path: Path) -> None:
    early = tmp_path / "early"
    shutil.copytree(GOLDEN / "seatunnel" / "cluster", early)
    regions = sorted((early / "jobs").iterdir(), key=lambda path: int(path.name))
    shutil.rmtree(regions[1])
    with running(tmp_path / "root") as node:
        location = f"kvwal://{node.address}"
        assert run("import", "seatunnel", early, location, *NAMES).code == 0
        for _ in range(2):
            assert run("import", "seatunnel", GOLDEN / "seatunnel" / "cluster", location, *NAMES).code == 0
            ran = run("import", "nifi", GOLDEN / "nifi-minimal", location, "--json", *NAMES)
            assert (ran.code, json.loads(ran.out)["left_out"]) == (4, 1), ran
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            jobs = {(type(key), key): value for key, value in store.map("jobs").items()}
            records = {(type(key), key): value for key, value in store.map("flowfiles").items()}
        assert jobs == seatunnel(GOLDEN / "seatunnel" / "cluster", Found())
        assert records == nifi(GOLDEN / "nifi-minimal", Found())
        refused = run("import", "flume", GOLDEN / "flume", location, *NAMES)
    assert refused.code == 2
    assert "is a cluster, and this command needs the folder of a store." in refused.err
