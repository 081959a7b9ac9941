"""Retention: applications that are older than a limit are deleted with all of their records, from every node that has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.ports.clock import SYSTEM
from kvwal.spark import index, retention
from kvwal.spark.events import application as events
from kvwal.spark.record_reader import ClusterRecords, reader_of
from tests.support.applications import ran, store_events, stream_that_failed
from tests.support.cli import kvwal as command

DAY = 86_400_000
LATE = 1 << 62
"""Every application is older."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four applications on two nodes, the last one written by both: 40, 30, 20 and 0 days old."""
    now = SYSTEM.wall_ms()
    for number, age in enumerate((40, 30, 20, 0)):
        node, prefix = f"n{number % 2}", f"app-{number}"
        told = [*ran(prefix, now - age * DAY, name=f"name-{number}", failed=(1,)), *stream_that_failed("q")]
        with kvwal.open(tmp_path, node=node, archive=None, flush="os") as store:
            store_events(store, prefix, told)
            store.map("spark").put(f"{prefix}/log", {"kind": "log", "complete": True})
    with kvwal.open(tmp_path, node="n0", archive=None, flush="os") as store:
        store_events(store, "app-1", ran("app-1", now - 30 * DAY, name="name-1"))
    return tmp_path


def keys(root: Path, node: str | None = None) -> set[str]:
    with kvwal.open(root, node=node, read_only=True) as store:
        return set(store.map("spark"))


def listed(root: Path) -> list[str]:
    told = map(json.loads, command("jobs", root, "--json").out.splitlines())
    return [one["id"] for one in told if one["kind"] == "app"]


def of(root: Path, app: str) -> set[str]:
    """The keys of an application: its own, and those of its summary and its failures."""
    return {key for key in keys(root) if app in key.split("/")}


def test_old_applications_are_deleted_with_all_of_their_records(root: Path) -> None:
    kept = of(root, "app-2") | of(root, "app-3")
    ran = command("prune", root, "--keep", "25d", "--json")
    assert ran.code == 0, ran.err
    assert [json.loads(line)["deleted"] for line in ran.out.splitlines()] == ["app-0", "app-1"]
    assert listed(root) == ["app-2", "app-3"]
    assert keys(root) == kept | {"app-0/log", "app-1/log", "=app/=n0", "=app/=n1"}
    assert "app-0" not in command("jobs", root, "--failed").out
    assert "No application is older than 25d." in command("prune", root, "--keep", "25d").out


def test_every_node_that_has_the_application_forgets_it(root: Path) -> None:
    assert {"app-1/app"} <= keys(root, "n0") & keys(root, "n1")
    command("prune", root, "--keep", "25d")
    assert not {"app-1/app", "=app/app-1"} & (keys(root, "n0") | keys(root, "n1"))


def test_a_name_or_a_dry_run_deletes_less(root: Path) -> None:
    before = keys(root)
    ran = command("prune", root, "--keep", "0s", "--dry-run")
    assert "app-2" in ran.out
    assert "would be deleted" in ran.out
    assert keys(root) == before
    assert command("prune", root, "--keep", "1d", "--name", "name-[02]").code == 0
    assert listed(root) == ["app-1", "app-3"]
    assert "No 'other*' is older than 1d." in command("prune", root, "--keep", "1d", "--name", "other*").out


def test_an_application_with_a_late_event_stays(root: Path) -> None:
    with kvwal.open(root, node="n0", archive=None) as store:
        store_events(store, "app-0", [events.ExecutorRemoved(SYSTEM.wall_ms(), "1")])
    command("prune", root, "--keep", "25d")
    assert listed(root) == ["app-0", "app-2", "app-3"]


def test_each_application_is_as_old_as_its_drivers_clock_says(tmp_path: Path) -> None:
    """Two drivers at the same moment, of which one's clock is a day ahead and the other's a day behind."""
    now = SYSTEM.wall_ms()
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        for prefix, started in (("a-ahead", now + DAY), ("b-behind", now - DAY)):
            store_events(store, prefix, ran(prefix, started, failed=(1,)))
    told = [json.loads(line) for line in command("jobs", tmp_path, "--json").out.splitlines()]
    assert [(one["jobs"], one["jobs_failed"], one["duration_ms"]) for one in told if one["kind"] == "app"] == [
        (3, 1, 3_000)
    ] * 2
    table = command("jobs", tmp_path).out
    assert table.index("b-behind") < table.index("a-ahead")
    failed = command("jobs", tmp_path, "--failed", "--since", "12h", "--json").out
    assert {json.loads(line)["application"] for line in failed.splitlines()} == {"a-ahead"}
    assert command("prune", tmp_path, "--keep", "12h").code == 0
    assert listed(tmp_path) == ["a-ahead"]


def test_a_node_in_use_is_left_out_and_named(root: Path) -> None:
    with kvwal.open(root, node="n0", archive=None) as store:
        store.map("spark")
        ran = command("prune", root, "--keep", "25d")
    assert ran.code == 0
    assert "n0 is in use" in ran.err
    assert "app-0/app" in keys(root)
    assert command("prune", root, "--keep", "25d").code == 0
    assert "app-0/app" not in keys(root)


def test_a_node_of_an_earlier_version_gets_its_index(root: Path) -> None:
    with kvwal.open(root, node="old", archive=None, flush="os") as store:
        store_events(store, "app-9", ran("app-9", SYSTEM.wall_ms()), with_index=False)
    assert command("prune", root, "--keep", "25d").code == 0
    assert {index.mark_key("old"), index.summary_key("app-9")} <= keys(root, "old")


class Killed(Exception):
    """The process is gone."""


class Dying:
    """A map whose user is killed at its `lives`-th transaction."""

    def __init__(self, records: Any, lives: int) -> None:
        self._records = records
        self._lives = lives
        self.entries = records.entries
        self.get = records.get

    def commit_if(self, conditions: dict[str, Any], items: dict[str, Any], deletes: list[str]) -> Any:
        self._lives -= 1
        if not self._lives:
            raise Killed
        return self._records.commit_if(conditions, items, deletes)


def test_killed_at_every_transaction_the_next_call_deletes_the_rest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MOST_DELETES", 3)
    lives = 0
    with kvwal.open(root, node="n0", archive=None, flush="os") as store:
        records = store.map("spark")
        while "app-0/app" in records:
            lives += 1
            for _ in killed(lambda lives=lives: retention.delete_applications(Dying(records, lives), ["app-0"], LATE)):
                assert {"app-0/app", "=app/app-0"} <= set(records), "it is still listed, so it is found again"
        assert lives > 3
        assert {key for key in records if "app-0" in key.split("/")} == {"app-0/log"}


def killed(work: Any) -> Iterator[None]:
    """Do the work; yield if it was killed."""
    try:
        work()
    except Killed:
        yield


def test_the_attempts_at_an_application_are_applications_of_their_own(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        for prefix in ("app", "app/1", "app/2"):
            store_events(store, prefix, ran(prefix, 1_000))
        retention.delete_applications(store.map("spark"), ["app", "app/2"], LATE)
        left = {key for key in store.map("spark") if key.startswith("app/")}
        assert {"app/log", "app/2/log"} == {key for key in left if not key.startswith("app/1/")}
        assert {"app/1/app", "app/1/job/0000000000"} <= left


def test_what_is_no_duration_and_no_recording_is_said(tmp_path: Path, root: Path) -> None:
    ran = command("prune", root, "--keep", "soon")
    assert (ran.code, "--keep 'soon' is no duration." in ran.err) == (2, True)
    with kvwal.open(tmp_path / "other", archive=None) as store:
        store.map("jobs")["a"] = 1
    assert command("prune", tmp_path / "other", "--keep", "1d").code == 2


def test_a_deleted_application_is_not_recorded_again_from_its_event_log(tmp_path: Path) -> None:
    logs = Path(__file__).resolve().parent.parent.parent / "golden" / "event-log"
    assert command("record", tmp_path, logs).code == 0
    assert len(listed(tmp_path)) == 1
    assert command("prune", tmp_path, "--keep", "0s").code == 0
    assert command("record", tmp_path, logs).code == 0
    assert not listed(tmp_path)


class Stands:
    """A map whose user stands still before its `step`-th transaction; `meanwhile` is what others do then."""

    def __init__(self, records: Any, step: int, meanwhile: Callable[[], None]) -> None:
        self._records = records
        self._left = step
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    def commit_if(self, *given: Any) -> Any:
        self._left -= 1
        if not self._left:
            self._meanwhile()
        return self._records.commit_if(*given)


@pytest.mark.parametrize("step", [1, 2, 99])
def test_an_application_that_goes_on_while_a_prune_stands_still_is_not_deleted(root: Path, step: int) -> None:
    """At step 99 it goes on between the list of old applications and the first look at it."""
    with kvwal.open(root, node="n0", archive=None, flush="os") as store:
        records, now = store.map("spark"), SYSTEM.wall_ms()

        def go_on() -> None:
            store_events(store, "app-0", ran("app-0", now, name="again", failed=(1,)))

        (old,) = retention.old_applications(reader_of(ClusterRecords(records.entries)), now - 35 * DAY)
        if step == 99:
            go_on()
        retention.delete_applications(Stands(records, step, go_on), [old.prefix], now - 35 * DAY)
        assert records["=app/app-0"]["name"] == "again"
        assert {"app-0/app", "app-0/job/0000000001"} <= set(records)
