"""Records made anew from kept logs, by a command that is killed at each of its transactions, and then run again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.spark import record_event_logs
from kvwal.spark.eventlog import log_reader
from kvwal.spark.eventlog.log_reader import LogResult
from kvwal.spark.kept.contents import KEPT_LOGS, KeptName
from kvwal.spark.kept.replay import record_again
from kvwal.spark.records import Application, Error, from_value, to_value
from tests.support.event_logs import event_log
from tests.support.spark_records import Killed

NAME = KeptName("app-1", "app-1.zstd")


class Mortal:
    """A map whose user is killed before, or after, one of its transactions."""

    def __init__(self, records: Any, dies_at: int, *, after: bool) -> None:
        self._records = records
        self._dies_at = dies_at
        self._after = after
        self._transactions = count()
        self.get, self.scan = records.get, records.scan

    def put_many(self, entries: dict[str, Any]) -> None:
        self.submit_many(entries, [])

    def submit_many(self, entries: dict[str, Any], deletes: list[str]) -> Any:
        dies = next(self._transactions) == self._dies_at
        if dies and not self._after:
            raise Killed
        done = self._records.submit_many(entries, deletes)
        done.result()
        if dies:
            raise Killed
        return done


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[kvwal.Store]:
    """A store with the kept log of an application whose Python failed, as its recorder saw."""
    (tmp_path / "app-1").write_bytes(event_log("app-1", 6))
    with kvwal.open(tmp_path / "root", archive=None, flush="os") as store:
        record_event_logs(store, [tmp_path / "app-1"], keep_logs=True)
        records = store.map("spark")
        app = from_value(records["app-1/app"])
        assert isinstance(app, Application)
        app.status, app.status_from, app.exit_code, app.dropped = "FAILED", "python", 3, 7
        app.error = Error("ValueError: no", "Traceback\nValueError: no")
        records["app-1/app"] = to_value(app)
        records["app-1/job/0000000009"] = records["app-1/job/0000000002"]
        monkeypatch.setattr(log_reader, "MAX_PENDING", 500)
        yield store


def again(records: Any, contents: kvwal.Contents, name: KeptName = NAME) -> list[LogResult]:
    return record_again(lambda app: nullcontext(records), contents, [name])


def recorded(store: kvwal.Store) -> dict[str, Any]:
    return {key: value for key, value in store.map("spark").items() if value["kind"] not in ("log", "index")}


@pytest.mark.parametrize("after", [False, True])
def test_a_command_that_is_killed_and_run_again_leaves_what_one_run_leaves(store: kvwal.Store, *, after: bool) -> None:
    contents, records = store.content(KEPT_LOGS), store.map("spark")
    again(records, contents)
    whole, kills = recorded(store), 0
    assert whole["app-1/app"]["status_from"] == "python"
    assert "app-1/job/0000000009" not in whole
    for number in count():
        records["app-1/job/0000000009"] = records["app-1/job/0000000002"]
        try:
            again(Mortal(records, number, after=after), contents)
        except Killed:
            kills += 1
        else:
            break
        again(records, contents)
        assert recorded(store) == whole
    assert kills > 3


def test_the_log_of_another_application_is_refused(store: kvwal.Store) -> None:
    contents = store.content(KEPT_LOGS)
    contents.copy(str(NAME), "app-2/app-2.zstd")
    (result,) = again(store.map("spark"), contents, KeptName("app-2", "app-2.zstd"))
    assert result.problem == "event-logs: app-2/app-2.zstd is not the log of app-2."
    assert not [key for key in store.map("spark") if "app-2" in key]


def test_a_kept_log_of_an_earlier_run_does_not_replace_the_records_of_a_later_one(
    store: kvwal.Store, tmp_path: Path
) -> None:
    (tmp_path / "app-1").write_bytes(event_log("app-1", 1, started=9_000))
    record_event_logs(store, [tmp_path / "app-1"])
    before = recorded(store)
    (result,) = again(store.map("spark"), store.content(KEPT_LOGS))
    assert "A later run is recorded" in result.skipped
    assert recorded(store) == before
