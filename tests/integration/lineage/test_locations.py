"""kvwal lineage on every kind of location, at an earlier moment, and with names that would write to a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kvwal
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.lineage.openlineage.events import checked
from kvwal.ports.clock import SYSTEM
from kvwal.spark import index
from kvwal.spark.index import node_of_mark
from kvwal.spark.records import Access, Application, Sql, to_value
from tests.support.cli import kvwal as command
from tests.support.cluster.nodes import CLUSTER, running
from tests.support.lineage.console import console
from tests.support.lineage.events import event
from tests.support.polling import until


def application(app: str, reads: str, writes: str, status: str = "SUCCEEDED") -> dict[str, Any]:
    """The records of an application with one execution, and their index."""
    sql = Sql(id=1, root=1, description="copy", status=status, ended=1_767_225_600_000, reads=[Access("csv", reads)],
              writes=[Access("csv", writes)])  # fmt: skip
    records = {
        f"{app}/app": to_value(Application(id=app, name=app, status=status)),
        f"{app}/sql/0000000001": to_value(sql),
    }
    return records | index.index_entries(records)


def down(location: object, dataset: str, *options: str) -> list[str]:
    ran = command("lineage", location, dataset, "--down", "--json", *options)
    assert ran.code == 0, ran.err
    return [each["dataset"] for each in json.loads(ran.out)["down"]]


def put_all(store: Any) -> None:
    """An application, and what another scheduler made of its output."""
    records = store.map("spark")
    records.put_many({**index.mark_of(records, node_of_mark(store)), **application("one", "/a", "/b")})
    EventStore(store.map("openlineage"), node_of_mark(store)).put([checked(event(inputs=["/b"], outputs=["/c"]))])


def test_a_folder_and_its_archive_have_the_same_graph(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "data", archive=tmp_path / "archive") as store:
        put_all(store)
        store.archive()
    assert down(tmp_path / "data", "/a") == down(tmp_path / "archive", "/a") == ["file:///b", "file:///c"]


def test_the_graph_at_an_earlier_moment_lacks_what_came_later(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        put_all(store)
        moment = store.map("openlineage").put("last", 1)
        until(
            lambda: SYSTEM.wall_ms() > moment >> TIMESTAMP_SHIFT or None
        )  # businesses have clocks of their own within it
        store.map("spark").put_many(application("two", "/c", "/d"))
    assert down(tmp_path, "/a") == ["file:///b", "file:///c", "file:///d"]
    assert down(tmp_path, "/a", "--at", str(moment)) == ["file:///b", "file:///c"]


def test_records_without_an_index_have_the_same_graph(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("spark").put_many(
            {key: value for key, value in application("one", "/a", "/b").items() if key[0] != "="}
        )
        store.map("spark")["=app/=local"] = {"kind": "index", "version": 1}
    ran = command("lineage", tmp_path, "/a", "--down")
    assert "file:///b" in ran.out
    assert "no whole index" in ran.err


def test_a_run_that_failed_is_shown_with_its_status(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        records = store.map("spark")
        records.put_many({**index.mark_of(records, "local"), **application("one", "/a", "/b", "FAILED")})
    assert "FAILED" in command("lineage", tmp_path, "/b", "--up").out


def test_names_never_reach_a_terminal_as_they_are(tmp_path: Path) -> None:
    wild = '/a \x1b[31m"quoted" \u202e\x07,b'
    with kvwal.open(tmp_path, archive=None) as store:
        told = event(inputs=["/in"], outputs=[wild], name="job \x1b]0;title\x07")
        EventStore(store.map("openlineage"), "local").put([checked(told)])
    assert down(tmp_path, "/in") == [f"file://{wild}"]
    assert down(tmp_path, wild) == []
    for dataset in ("/in", wild, "/wrong"):
        ran = command("lineage", tmp_path, dataset)
        assert not {"\x1b", "\x07"} & set(ran.out + ran.err)


def test_a_cluster_takes_events_and_has_the_same_graph(tmp_path: Path) -> None:
    with running(tmp_path / "root") as node:
        location = f"kvwal://{node.address}"
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            put_all(store)
        with console(location, "--cluster", CLUSTER, "--allow-writes", log=tmp_path / "log") as server:
            told = event(inputs=["/c"], outputs=["/d"], run={"runId": "0199b7b2-7cf1-7c1b-9a2c-00000000000b"})
            assert server.post(told).body == {"stored": 1, "known": 0}
            assert server.post(told).body == {"stored": 0, "known": 1}
        assert down(location, "/a", "--cluster", CLUSTER) == ["file:///b", "file:///c", "file:///d"]
