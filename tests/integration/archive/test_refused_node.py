"""Nodes whose archive refuses their credentials. A real S3 server, behind a proxy where it changes its mind."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.node.health.repeated_lines import MOST, WINDOW_SECONDS
from tests.support.archive import s3
from tests.support.archive.proxy import proxied
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, needs_hazelcast
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
SAID = "refused access: a wrong key or secret"
SECRET = "AWS_SECRET_ACCESS_KEY"
SMALL = "[log]\narchive_seconds = 1\n"


@pytest.fixture(scope="module")
def server() -> s3.Server:
    return s3.server()


@pytest.fixture
def right(server: s3.Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment has the right credentials. The secret."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return server.secret


@pytest.fixture
def two(server: s3.Server, right: str, tmp_path: Path) -> Iterator[Cluster]:
    """Two nodes that archive to a bucket of that server. None is started."""
    made = Cluster(tmp_path, 2, config=SMALL)
    url = f"{s3.bucket(server)}/archive"
    for node in made.nodes:
        node.more = ["--members", made.addresses, "--archive", url]
    yield made
    end(*made.nodes)


def end(*nodes: Node) -> None:
    for node in nodes:
        if node.process is not None:
            node.kill()


def assert_refused(node: Node) -> None:
    """It is started with the environment as it is, and ends by the sentence, with the code of what only a person can mend."""
    node.spawn()
    assert (node.ended(), node.lines()[-1]["kind"]) == (2, "AccessRefused")
    assert SAID in node.lines()[-1]["event"]
    assert "AWS_SECRET_ACCESS_KEY" in node.lines()[-1]["event"]


def archives_up(cluster: Cluster) -> set[float]:
    """What the nodes tell Prometheus of the archives of all maps."""
    figures = (figure for node in cluster.nodes for figure in node.figures().items())
    return {value for name, value in figures if name.startswith("kvwal_archive_up{")}


def seconds(first: dict[str, Any], last: dict[str, Any]) -> float:
    """The time between two lines of a log."""
    begun, ended = (datetime.fromisoformat(line["timestamp"]) for line in (first, last))
    return (ended - begun).total_seconds()


def test_a_member_with_a_wrong_secret_ends_by_one_sentence_at_each_step_of_its_start(
    two: Cluster, right: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two.nodes
    monkeypatch.setenv(SECRET, "wrong")
    assert_refused(first)  # no other node is there
    monkeypatch.setenv(SECRET, right)
    first.spawn()
    first.told("waiting_for")
    monkeypatch.setenv(SECRET, "wrong")
    assert_refused(second)  # both are new, and the other one waits for it
    monkeypatch.setenv(SECRET, right)
    two.start()
    with kvwal.connect(two.addresses, cluster=CLUSTER) as store:
        store.map("jobs").put_many({f"job-{number}": number for number in range(50)})
    assert second.stop() == 0
    monkeypatch.setenv(SECRET, "wrong")
    assert_refused(second)  # it joins with its logs
    shutil.rmtree(second.root)
    assert_refused(second)  # it joins without its disk
    with kvwal.connect(first.address, cluster=CLUSTER) as store:
        assert len(store.map("jobs")) == 50
    first.kill()
    assert_refused(first)  # its logs are to be archived, and nobody is there


def test_a_node_alone_with_a_wrong_secret_ends_by_the_same_sentence(
    server: s3.Server, right: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = Node(tmp_path / "root", config=SMALL, more=["--archive", f"{s3.bucket(server)}/archive"])
    monkeypatch.setenv(SECRET, "wrong")
    try:
        assert_refused(alone)  # it is new
        monkeypatch.setenv(SECRET, right)
        alone.start()
        with alone.client() as client:
            client.get_map("jobs").blocking().set("job-1", 1)
        assert alone.stop() == 0
        monkeypatch.setenv(SECRET, "wrong")
        assert_refused(alone)  # it has its logs
        assert not [line for line in alone.lines() if line["event"] == "serving"][1:]
    finally:
        end(alone)


def test_a_member_whose_credentials_are_refused_later_serves_on_and_says_so_without_a_flood(
    server: s3.Server, two: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxied(server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        two.start()
        proxy.choose = lambda method, path: "403 SignatureDoesNotMatch"
        with kvwal.connect(two.addresses, cluster=CLUSTER) as store:
            for number in range(20):
                store.map(f"map-{number}").put_many({f"job-{key}": key for key in range(10)})
            until(lambda: True if archives_up(two) == {0.0} else None)
            assert [node.get("/readyz")[0] for node in two.nodes] == [200, 200]
            assert store.map("map-1")["job-1"] == 1
            proxy.choose = lambda method, path: None
            until(lambda: True if archives_up(two) == {1.0} else None)
        assert [node.stop() for node in two.nodes] == [0, 0]
    for node in two.nodes:
        said = [line for line in node.lines() if SAID in line.get("error", "")]
        assert said
        for event in {line["event"] for line in said}:
            lines = [line for line in said if line["event"] == event]
            assert len(lines) <= MOST or seconds(lines[0], lines[MOST]) >= WINDOW_SECONDS
