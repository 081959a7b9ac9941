"""A root that several drivers record into: the nodes of finished applications become one, and no reader notices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.history.reads.tail_reader import merged_entries
from kvwal.log.files.names import find_places
from kvwal.ports.disk import OS_DISK
from kvwal.spark.eventlog.logs import ApplicationIdentity, LocalEventLog
from kvwal.spark.index import is_mark
from kvwal.spark.recording import nodes as spark_nodes
from kvwal.spark.recording import recorder
from kvwal.spark.recording.nodes import SHARED, RecorderRoot, finished_nodes, merge_finished, shared_node
from kvwal.spark.recording.recorder import JobRecorder
from kvwal.spark.recording.spool import add_roll
from kvwal_archive.layout import Place
from tests.support.cli import kvwal as run


class Listener:
    """Has written the beginning of an application's event log, and one job."""

    def __init__(self, app: str, folder: Path) -> None:
        path = folder / f"eventlog_v2_{app}"
        path.mkdir()
        self.log = LocalEventLog(path)
        add_roll(self.log, 0, [
            {"Event": "SparkListenerApplicationStart", "App Name": "a test", "App ID": app, "Timestamp": 1, "User": "me"},
            {"Event": "SparkListenerJobStart", "Job ID": 0, "Submission Time": 2, "Stage Infos": [], "Stage IDs": []},
        ])  # fmt: skip

    def detach(self) -> int:
        return 0


class Driver:
    """Stands in for the driver of a Spark session, whose application has the id that `session` is."""

    def __init__(self, session: str) -> None:
        self.identity = ApplicationIdentity(session, "", "a test")

    def attach(self, folder: Path) -> Listener:
        return Listener(self.identity.app, folder)


@pytest.fixture(autouse=True)
def stood_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "Driver", Driver)


def recording(root: Path, app: str) -> JobRecorder:
    return JobRecorder(app, root, archive=None)  # type: ignore[arg-type]


def nodes(root: Path) -> list[str]:
    return [place.node for place in find_places(OS_DISK, root, "default", "local", "spark")]


def records(root: Path) -> dict[Any, Any]:
    """Every record as readers see it, with its timestamp. Left out are the marks of nodes, since a new node gets its own."""
    places = find_places(OS_DISK, root, "default", "local", "spark")
    entries = merged_entries(OS_DISK, root, places)
    return {key: entry.public() for key, entry in entries.items() if not is_mark(key[1].decode())}


def quiet(done: int, total: int, what: str) -> None:
    """No progress is shown."""


def test_finished_applications_are_merged_into_one_node(tmp_path: Path) -> None:
    for number in range(3):
        with recording(tmp_path, f"app-{number}"):
            pass
    assert nodes(tmp_path) == ["app-0", "app-1", "app-2"]
    before = records(tmp_path)
    history = run("history", tmp_path, "spark", "app-1/recorder", "--json").out
    assert len(history.splitlines()) > 1
    ran = run("record", tmp_path)
    assert ran.code == 0
    assert "3 finished applications" in ran.err
    assert nodes(tmp_path) == [SHARED]
    assert records(tmp_path) == before
    assert run("history", tmp_path, "spark", "app-1/recorder", "--json").out == history
    assert run("put", tmp_path, "spark", "key", "1").code == 0, "there is one node now"


def test_a_running_application_keeps_its_node(tmp_path: Path) -> None:
    with recording(tmp_path, "app-0"):
        pass
    with recording(tmp_path, "app-1"):
        where = RecorderRoot(tmp_path, "default", "local")
        assert shared_node(where) == SHARED, "not the node of a recorder that has just begun"
        assert finished_nodes(where, SHARED) == ["app-0"]
        merged = merge_finished(where, quiet)
        assert merged is not None
        assert merged.nodes == ["app-0"]
        locked = merge_finished(where, quiet, ["app-1"])
        assert locked is not None
        assert (locked.nodes, list(locked.left)) == ([], ["app-1"]), "its lock protects it too"
    assert nodes(tmp_path) == ["app-1", SHARED]


def test_a_recorder_that_begins_between_two_looks_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recording(tmp_path, "app-0"):
        pass
    with kvwal.open(tmp_path, node="app-1", archive=None) as store:
        store.map("spark")
    began: list[str] = []

    def then_it_begins(look: Callable[..., bool]) -> Callable[..., bool]:
        def looks(disk: Any, root: Path, place: Place) -> bool:
            found = look(disk, root, place)
            if place.node == "app-1" and not began:
                began.append(place.node)
                with recording(tmp_path, "app-1"):
                    pass
            return found

        return looks

    for name in ("is_application_node", "_is_empty"):
        monkeypatch.setattr(spark_nodes, name, then_it_begins(getattr(spark_nodes, name)))
    assert shared_node(RecorderRoot(tmp_path, "default", "local")) == SHARED
    assert began == ["app-1"]


def test_a_node_that_holds_other_things_stays(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, node="mine", archive=None) as store:
        store.map("spark")["a record"] = 1
    for app in ("app-0", "app-1"):
        with recording(tmp_path, app):
            pass
    with kvwal.open(tmp_path, node="app-1", archive=None) as store:
        store.map("other")["key"] = 1
    assert shared_node(RecorderRoot(tmp_path, "default", "local")) == "mine", "the only node that no recorder made"
    assert run("record", tmp_path).code == 0
    assert nodes(tmp_path) == ["app-1", "mine"]


def test_a_root_with_one_node_stays_as_it_is(tmp_path: Path) -> None:
    with recording(tmp_path, "app-0"):
        pass
    assert run("record", tmp_path).code == 2, "nothing was left, as before"
    assert nodes(tmp_path) == ["app-0"]


def test_what_a_killed_driver_left_is_read_before_its_node_is_merged(tmp_path: Path) -> None:
    with recording(tmp_path, "app-0"):
        pass
    spool = tmp_path / "_spark/default/local/app-1"
    spool.mkdir(parents=True)
    Listener("app-1", spool)
    assert run("record", tmp_path).code == 0
    assert nodes(tmp_path) == [SHARED]
    with kvwal.open(tmp_path, read_only=True, archive=None) as store:
        assert store.map("spark")["app-1/app"]["status"] == "KILLED"


def test_a_recorder_that_is_closed_merges_when_there_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_nodes, "MANY_NODES", 3)
    for number in range(3):
        with recording(tmp_path, f"app-{number}"):
            pass
    assert nodes(tmp_path) == [SHARED]
    with kvwal.open(tmp_path, node=SHARED, archive=None) as held:
        held.map("spark")
        for number in range(3, 6):
            with recording(tmp_path, f"app-{number}") as recorded:
                pass
            assert recorded.failure is None, "another driver merges: that is no failure"
    assert nodes(tmp_path) == ["app-3", "app-4", "app-5", SHARED]
    assert {f"app-{number}/app" for number in range(6)} <= {key.decode() for _, key in records(tmp_path)}


def test_an_application_that_is_recorded_again_goes_on_with_its_records(tmp_path: Path) -> None:
    for app in ("app-0", "app-1"):
        with recording(tmp_path, app):
            pass
    assert run("record", tmp_path).code == 0
    with kvwal.open(tmp_path, read_only=True, archive=None) as store:
        before = store.map("spark")["app-0/app"]
    assert before["jobs"] == 1
    with recording(tmp_path, "app-0"):
        assert len(nodes(tmp_path)) == 2
    with kvwal.open(tmp_path, read_only=True, archive=None) as store:
        again = store.map("spark")["app-0/app"]
    assert (again["jobs"], again["status"]) == (1, before["status"]), "the job was counted before, and counts once"
    assert run("record", tmp_path).code == 0
    assert nodes(tmp_path) == [SHARED]


def test_what_was_merged_is_archived_checked_and_restored_like_any_other(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for app in ("app-0", "app-1", "app-2"):
        with recording(root, app):
            pass
    assert run("archive", "run", root, "--node", "app-1").code == 0, "this node stays registered in the archive"
    before = records(root)
    history = run("history", root, "spark", "app-1/recorder", "--json").out
    assert run("record", root).code == 0
    assert run("history", root, "spark", "app-1/recorder", "--json").out == history
    for command in (("archive", "run"), ("checkpoint",), ("log", "verify"), ("archive", "verify")):
        assert run(*command, root).code == 0, command
    assert nodes(root) == [SHARED]
    assert records(root) == before
    assert run("history", root, "spark", "app-1/recorder", "--json").out == history
    kvwal.restore(root / "_archive", tmp_path / "restored")
    assert {key: entry for key, entry in records(tmp_path / "restored").items() if not entry.deleted} == before
