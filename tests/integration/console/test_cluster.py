"""A console of a running cluster: reads, SQL, watches and writes on a condition, and a member that goes and comes back."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

import kvwal
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast
from tests.support.cluster.nodes import running as running_node
from tests.support.console.client import API, get, send
from tests.support.lineage.console import RunningConsole, console
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long, pytest.mark.timeout(600)]
KEY = f"{API}/businesses/jobs/key?key=job-1"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(tmp_path_factory.mktemp("node")) as node:
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            store.map("jobs").put_many({f"job-{number}": {"rows": number} for number in range(10)})
            store.queue("work").put_many([1, 2, 3])
        yield node


@pytest.fixture(scope="module")
def running(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    log = tmp_path_factory.mktemp("console") / "log"
    with console(f"kvwal://{node.address}", "--cluster", CLUSTER, "--allow-writes", log=log) as running:
        yield running


def test_keys_pages_and_sql_of_a_cluster(running: RunningConsole) -> None:
    page = get(running.url, "/businesses/jobs/keys", {"limit": 4}).json
    assert [each["value"]["rows"] for each in page["entries"]] == [0, 1, 2, 3]
    found = get(running.url, "/sql", {"sql": "SELECT count(*) FROM jobs"})
    assert found.json["rows"] == [[10]], found
    assert [each["items"] for each in get(running.url, "/queues", {"business": "work"}).json["queues"]] == [3]
    for path in ("/store", "/store/jobs", "/operations", "/store/work/queues"):
        assert send(running.url, "GET", path).status == 200, path
    assert get(running.url, "/businesses/jobs/contents").json["contents"] == []
    assert get(running.url, "/businesses/jobs/provenance").status == 404


def test_operations_show_the_figures_that_the_node_tells(node: Node, running: RunningConsole) -> None:
    told, metrics = get(running.url, "/operations").json, node.figures()
    (shown,) = told["nodes"]
    assert (told["kind"], shown["node"], shown["phase"], shown["serves"]) == ("cluster", node.name, "serving", True)
    assert 0 < shown["fsync_p50_seconds"] <= shown["fsync_p99_seconds"]
    assert (shown["written_entries"], shown["refused_writes"]) == (metrics["kvwal_entries_total"], {})
    assert shown["disk_usable_bytes"] > 0
    (log,) = [each for each in told["logs"] if each["business"] == "jobs"]
    assert (log["node"], log["last_sequence"]) == (node.name, metrics['kvwal_last_sequence{business="jobs"}'])
    assert log["checkpoint_age_seconds"] >= 0
    assert {each["map"]: each["entries"] for each in told["maps"]}["jobs"] == 10
    (row,) = send(running.url, "GET", "/operations?format=json&table=nodes").json
    assert (row["node"], row["phase"]) == (node.name, "serving")


def test_a_write_on_a_condition_and_a_watch(running: RunningConsole) -> None:
    split = urlsplit(running.url)
    with socket.create_connection((split.hostname or "", split.port or 0), timeout=60) as client:
        client.sendall(f"GET {API}/businesses/jobs/watch HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        lines = client.makefile("rb")
        assert b"200" in lines.readline()
        while lines.readline() != b"retry: 2000\n":
            pass
        tag = send(running.url, "GET", KEY).headers["etag"]
        body, kind = json.dumps({"rows": 100}).encode(), "application/json"
        assert send(running.url, "PUT", KEY, body, Content_Type=kind, If_Match='"1"').status == 412
        put = send(running.url, "PUT", KEY, body, Content_Type=kind, If_Match=tag)
        assert put.status == 200, put
        assert send(running.url, "PUT", KEY, body, Content_Type=kind, If_Match=tag).status == 412
        assert send(running.url, "GET", KEY).headers["etag"] == put.headers["etag"]
        while not (line := lines.readline()).startswith(b"data: "):
            pass
        assert json.loads(line.removeprefix(b"data: "))["value"] == {"rows": 100}


def test_a_cluster_that_goes_and_comes_back(node: Node, running: RunningConsole) -> None:
    """While it is away or loads, callers are told to come again."""
    assert send(running.url, "GET", KEY).status == 200
    node.kill()
    reply = send(running.url, "GET", KEY)
    assert (reply.status, reply.headers.get("retry-after")) == (503, "2"), reply
    assert send(running.url, "GET", "/operations").status in (200, 503)
    page = send(running.url, "GET", "/store/jobs")
    assert (page.status, b'class="sentence"' in page.body) == (503, True)
    assert send(running.url, "GET", "/healthz").status == 200
    node.start()

    def answered() -> bool | None:
        reply = send(running.url, "GET", KEY)
        assert reply.status in (200, 503), reply
        return True if reply.status == 200 else None

    until(answered)
