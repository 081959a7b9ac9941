"""From an embedded store's archive into a cluster, whichever member is killed while it loads; and what was destroyed stays so."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, needs_hazelcast

pytestmark = [needs_hazelcast, pytest.mark.long]
ENTRIES = 200_000
AT_ONCE = 10_000


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of an embedded store with many entries, a deleted one and one that has expired."""
    folder = tmp_path_factory.mktemp("embedded")
    with kvwal.open(folder / "root", cluster=CLUSTER, archive=folder / "archive") as store:
        jobs = store.map("jobs")
        for begin in range(0, ENTRIES, AT_ONCE):
            jobs.put_many({f"job-{number}": number for number in range(begin, begin + AT_ONCE)})
        jobs.put("short", 1, ttl=0.001)
        jobs.put("gone", 1)
        del jobs["gone"]
        store.archive()
    return folder / "archive"


@pytest.fixture(scope="module")
def three(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three members that do not run yet: the first test watches them load, and either may be the only one of a run."""
    made = Cluster(tmp_path_factory.mktemp("three"), 3, archive=archive)
    yield made
    for node in made.nodes:
        if node.process is not None:
            node.kill()


def loading(nodes: list[Node]) -> Node:
    """Waits until one of them fills the memory, and tells which."""
    while True:
        for node in nodes:
            try:
                found = node.ready()
            except OSError:  # it does not listen yet
                continue
            assert found["phase"] != "serving", "it was loaded before anybody saw it"
            if found.get("loading") == node.name:
                return node


def test_a_cluster_from_an_embedded_stores_archive_though_the_loading_member_is_killed(three: Cluster) -> None:
    for node in three.nodes:
        node.spawn()
    first = loading(three.nodes)
    first.kill()
    began = time.monotonic()
    three.start()
    print(f"all serve {time.monotonic() - began:.1f} s after the loading member was started again")
    with three.client() as client:
        jobs = client.get_map("jobs").blocking()
        assert jobs.size() == ENTRIES
        assert sum(jobs.values()) == sum(range(ENTRIES))
    for line in first.log.read_text().splitlines():
        if '"filling memory"' in line:
            print(json.loads(line))


def test_a_map_that_was_destroyed_does_not_come_back_and_what_was_put_since_does(three: Cluster) -> None:
    three.start()
    with three.client() as client:
        short = client.get_map("short")
        short.blocking().put_all({f"key-{number}": number for number in range(300)})
        assert short.destroy()
        client.get_map("short").blocking().put("key-1", "again")
    three.kill()
    began = time.monotonic()
    three.start()
    print(f"{ENTRIES:,} entries: all serve {time.monotonic() - began:.1f} s after the start of three nodes")
    assert three.contents("short") == {"key-1": "again"}
    with three.client() as client:
        assert client.get_map("jobs").blocking().size() == ENTRIES
