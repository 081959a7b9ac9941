"""Imported runs that are older than a limit go with all of their events, and what holds now stays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.lineage.openlineage.events import checked
from kvwal.lineage.openlineage.retention import delete_events, old_events
from kvwal.lineage.openlineage.runs import time_of
from tests.support.cli import kvwal as command
from tests.support.lineage.events import event

OLD, NEW = "0199b7b2-7cf1-7c1b-9a2c-00000000000a", "0199b7b2-7cf1-7c1b-9a2c-00000000000b"
NOW = time_of({"eventTime": "2026-01-03T00:00:00Z"})


def run(run_id: str, time: str, state: str = "COMPLETE", **fields: Any) -> dict[str, Any]:
    return event(state, time, run={"runId": run_id}, **fields)


def of_job(time: str, reads: str) -> dict[str, Any]:
    """An event without a run: what a job reads now."""
    told = event(None, time, inputs=[reads], outputs=["/report"], name="model")
    return {name: value for name, value in told.items() if name != "run"}


def put(store: Any, *events: dict[str, Any]) -> None:
    EventStore(store.map("openlineage"), store.node or "").put([checked(each) for each in events])


def keys(root: Path) -> set[str]:
    with kvwal.open(root, read_only=True) as store:
        return {str(key) for key in store.map("openlineage")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two nodes. Both have an event of the old run, and of a run that is told of at the last day as well."""
    with kvwal.open(tmp_path, node="n0", archive=None) as store:
        put(store, run(OLD, "2026-01-01T00:00:00Z", "START", inputs=["/a"]), run(NEW, "2026-01-01T00:00:00Z", "START"))
        put(store, *(of_job(f"2026-01-01T0{hour}:00:00Z", f"/source-{hour}") for hour in range(4)))
    with kvwal.open(tmp_path, node="n1", archive=None) as store:
        put(
            store,
            run(OLD, "2026-01-01T01:00:00Z", outputs=["/b"]),
            run(NEW, "2026-01-02T23:00:00Z", outputs=["/c"], name="late"),
        )
    return tmp_path


def test_an_old_run_goes_from_every_node_and_what_holds_now_stays(root: Path) -> None:
    ran = command("prune", root, "--keep", "100d", "--json")
    assert ran.code == 0, ran.err
    deleted = [json.loads(line) for line in ran.out.splitlines()]
    assert [each["name"] for each in deleted] == ["tests/load", "tests/model", "tests/late"]
    assert deleted[0]["deleted"] == f"run/{OLD}"
    left = keys(root)
    assert len(left) == 2  # the last event of the job, and its record
    assert all(key.removeprefix("event/").startswith("job/") for key in left)
    assert json.loads(command("lineage", root, "/report", "--json").out)["up"][0]["dataset"] == "file:///source-3"
    assert "No application is older" in command("prune", root, "--keep", "100d").out


def test_a_run_with_a_late_event_on_another_node_stays_whole(root: Path) -> None:
    with kvwal.open(root, read_only=True) as store:
        found = old_events(store.read_business("openlineage"), NOW - 86_400_000)
    assert next(each.subject for each in found) == f"run/{OLD}"
    assert f"run/{NEW}" not in {each.subject for each in found}


def test_a_name_or_a_dry_run_deletes_less(root: Path) -> None:
    before = keys(root)
    assert f"run/{OLD}" in command("prune", root, "--keep", "100d", "--dry-run").out
    assert keys(root) == before
    command("prune", root, "--keep", "100d", "--name", "la*")
    assert {key for key in before - keys(root) if NEW not in key} == set()
    assert not {key for key in keys(root) if NEW in key}


def test_a_node_in_use_is_left_out_and_named(root: Path) -> None:
    with kvwal.open(root, node="n0", archive=None) as store:
        store.map("openlineage")
        ran = command("prune", root, "--keep", "100d")
    assert ran.code == 0
    assert "n0 is in use; its events stay" in ran.err
    assert {key for key in keys(root) if key.startswith(f"run/{OLD}")} == {f"run/{OLD}/n0"}
    command("prune", root, "--keep", "100d")
    assert not {key for key in keys(root) if OLD in key}


class Meanwhile:
    """A map into which something is put just before its first transaction."""

    def __init__(self, events: Any, put: Any) -> None:
        self._events, self._put = events, put
        self.entries, self.get = events.entries, events.get

    def commit_if(self, conditions: Mapping[Any, Any], items: Any, deletes: Iterable[Any] = (), /) -> bool:
        put, self._put = self._put, lambda: None
        put()
        return bool(self._events.commit_if(conditions, items, deletes))


def test_a_run_that_goes_on_while_a_prune_stands_still_is_not_deleted(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        put(store, run(OLD, "2026-01-01T00:00:00Z", "START"))
        late = run(OLD, "2026-01-02T23:00:00Z")
        events = Meanwhile(store.map("openlineage"), lambda: put(store, late))
        assert delete_events(events, [f"run/{OLD}"], NOW - 86_400_000) == 0
        assert len(store.map("openlineage")) == 3
        assert delete_events(store.map("openlineage"), [f"run/{OLD}"], NOW - 86_400_000) == 0  # it is no longer old


class CutAfter:
    """A map that raises in place of a transaction, as if its process were killed: `left` transactions go through before."""

    def __init__(self, events: Any, transactions: int) -> None:
        self._events, self._left = events, transactions
        self.entries, self.get = events.entries, events.get

    def commit_if(self, conditions: Mapping[Any, Any], items: Any, deletes: Iterable[Any] = (), /) -> bool:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        return bool(self._events.commit_if(conditions, items, deletes))


def test_a_prune_that_was_killed_leaves_a_run_that_the_next_one_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvwal.lineage.openlineage.retention.MOST_DELETES", 2)
    with kvwal.open(tmp_path, archive=None) as store:
        events = store.map("openlineage")
        put(store, *(run(OLD, f"2026-01-01T00:0{minute}:00Z", "RUNNING") for minute in range(5)))
        for left in (4, 2, 1):  # the last transaction of each round deletes what the one before it left
            with pytest.raises(KeyboardInterrupt):
                delete_events(CutAfter(events, 1), [f"run/{OLD}"], NOW)
            assert len(events) == left
            assert [each.subject for each in old_events(events, NOW)] == [f"run/{OLD}"]
        assert delete_events(events, [f"run/{OLD}"], NOW) == 1
        assert len(events) == 0
