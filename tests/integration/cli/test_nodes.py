"""Commands on a root with several nodes, as several drivers leave it: each node gets its work, one after the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kvwal as library
from kvwal_archive.objects import open_objects
from kvwal_archive.registry import registered
from tests.support.cli import kvwal

NODES = ("app-1", "app-2", "app-3")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with three nodes of one business."""
    for number, node in enumerate(NODES):
        with library.open(tmp_path / "data", node=node, archive=None) as store:
            store.map("jobs").update({f"{node}/a": number, f"{node}/b": number})
    return tmp_path / "data"


def archived(root: Path) -> list[str]:
    """The nodes that the archive of the root knows."""
    return [place.node for place in registered(open_objects(str(root / "_archive")), "default", "local")]


def test_every_node_is_archived_and_checkpointed(root: Path) -> None:
    ran = kvwal("archive", "run", root)
    assert (ran.code, ran.out) == (0, f"{root}: 3 logs of 3 nodes are archived.\n")
    assert archived(root) == list(NODES)
    assert kvwal("checkpoint", root).out == f"{root}: 3 logs of 3 nodes have a snapshot.\n"
    assert all(any((root / "default/local/jobs" / node).glob("*.snapshot")) for node in NODES)
    lines = kvwal("checkpoint", root, "--json").out.splitlines()
    assert [json.loads(line)["node"] for line in lines] == list(NODES)


def test_with_a_node_only_that_one_is_worked_on(root: Path) -> None:
    assert kvwal("archive", "run", root, "--node", "app-2").out == f"{root}: 1 map is archived.\n"
    assert archived(root) == ["app-2"]


def test_a_node_that_another_process_holds_is_said_and_the_others_are_archived(root: Path) -> None:
    with library.open(root, node="app-2", archive=None) as held:
        held.map("jobs")
        ran = kvwal("archive", "run", root)
    assert ran.code == 3
    assert ran.out == f"{root}: 2 logs of 2 nodes are archived.\n"
    said, summary = ran.err.splitlines()
    assert said.startswith("app-2: ")
    assert "held by pid" in said
    assert summary.startswith("kvwal: 1 node of 3 could not be archived: app-2.")
    assert archived(root) == ["app-1", "app-3"]


def test_a_damaged_node_is_said_and_the_others_have_a_snapshot(root: Path) -> None:
    [segment] = (root / "default/local/jobs/app-1").glob("*.wal")
    segment.write_bytes(b"x" * segment.stat().st_size)
    with library.open(root, node="app-3", archive=None) as held:
        held.map("jobs")
        ran = kvwal("checkpoint", root)
    assert ran.code == 4, "damage counts more than a lock"
    assert [line.split(":")[0] for line in ran.err.splitlines()] == ["app-1", "app-3", "kvwal"]
    assert any((root / "default/local/jobs/app-2").glob("*.snapshot"))


def test_an_archiver_that_cannot_archive_fails_on_each_node(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    ran = kvwal("archive", "run", root, "--archive", tmp_path / "file" / "archive")
    assert (ran.code, ran.out) == (3, "")
    assert "3 nodes of 3 could not be archived: app-1, app-2, app-3." in ran.err


def test_what_writes_one_entry_still_needs_a_node(root: Path) -> None:
    ran = kvwal("put", root, "jobs", "key", "1")
    assert ran.code == 2
    assert "has several nodes: app-1, app-2, app-3." in ran.err


def test_an_error_lists_the_first_of_very_many_nodes(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / "default/local/jobs" / f"app-{number:02}").mkdir(parents=True)
    assert "app-08, app-09 and 2 more." in kvwal("put", tmp_path, "jobs", "key", "1").err


EVENT_LOG = Path(__file__).parents[2] / "golden" / "event-log"


def recorded_nodes(root: Path) -> set[str]:
    """The nodes that have the record of the application in the event log."""
    nodes = [path.name for path in (root / "default/local/spark").iterdir()]
    found = set()
    for node in nodes:
        with library.open(root, node=node, read_only=True, archive=None) as store:
            found |= {node} if "local-1795237371242/app" in store.map("spark") else set()
    return found


def record_application(root: Path, node: str) -> None:
    """Leave the node of an application, as a recorder does."""
    with library.open(root, node=node, archive=None) as store:
        store.map("spark")[f"{node}/app"] = {"kind": "app", "id": node}


def test_event_logs_go_to_the_node_shared_beside_the_nodes_of_drivers(tmp_path: Path) -> None:
    record_application(tmp_path, "app-1")
    record_application(tmp_path, "app-2")
    assert kvwal("record", tmp_path, EVENT_LOG).code == 0
    assert recorded_nodes(tmp_path) == {"shared"}
    assert kvwal("record", tmp_path, EVENT_LOG, "--json").out.count('"events":0') == 1, "it reads on in the same node"


def test_event_logs_go_to_the_only_node_that_no_recorder_made(tmp_path: Path) -> None:
    assert kvwal("record", tmp_path, EVENT_LOG).code == 0
    assert recorded_nodes(tmp_path) == {"local"}, "as in an empty root"
    record_application(tmp_path, "app-1")
    assert kvwal("record", tmp_path, EVENT_LOG, "--json").out.count('"events":0') == 1
    assert recorded_nodes(tmp_path) == {"local"}
