"""`kvwal prune` on a cluster: old applications go from the cluster's map while its node serves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal as library
from kvwal.spark import index
from tests.repository.source import ROOT
from tests.support.cli import Ran, kvwal
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running

pytestmark = needs_hazelcast
NAMES = ("--cluster", CLUSTER)
LOGS = ROOT / "tests" / "golden" / "event-log"


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Node]:
    """A node of a cluster into which one application was recorded, long ago."""
    with running(tmp_path / "root") as node:
        assert on(node, "record", LOGS).code == 0
        yield node


def on(node: Node, command: str, *words: object) -> Ran:
    return kvwal(command, f"kvwal://{node.address}", *words, *NAMES)


def test_an_old_application_goes_from_a_cluster_and_is_not_recorded_again(recorded: Node) -> None:
    (app,) = [
        line["id"] for line in map(json.loads, on(recorded, "jobs", "--json").out.splitlines()) if line["kind"] == "app"
    ]
    for kept in (("--keep", "9000d"), ("--keep", "1h", "--name", "other-*"), ("--keep", "1h", "--dry-run")):
        assert on(recorded, "prune", *kept).code == 0
        assert on(recorded, "jobs", "--json").out
    ran = on(recorded, "prune", "--keep", "1h", "--json")
    assert [json.loads(line)["deleted"] for line in ran.out.splitlines()] == [app], ran.err
    with library.connect(recorded.address, cluster=CLUSTER) as store:
        left = {key for key in store.map("spark") if not index.is_mark(key)}
    assert left == {f"{app}/log"}
    assert on(recorded, "record", LOGS).code == 0
    assert on(recorded, "jobs", "--json").out == ""


def test_what_cannot_be_pruned_is_said(recorded: Node, tmp_path: Path) -> None:
    ran = kvwal("prune", tmp_path.as_uri(), "--keep", "1h")
    assert (ran.code, "archive" in ran.err) == (2, True)
    ran = kvwal("prune", f"kvwal://{recorded.address}", "--keep", "1h", "--cluster", "other")
    assert (ran.code, "refuses this client" in ran.err) == (2, True)
    with library.connect(recorded.address, cluster=CLUSTER) as store:
        store.hazelcast.get_map("spark").destroy()
    ran = on(recorded, "prune", "--keep", "1h")
    assert (ran.code, "has no map 'spark'" in ran.err) == (2, True)
