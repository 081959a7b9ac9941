"""`--at TIME`: every command that reads answers as the store was then, and says so where its history does not reach back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import kvwal as library
from kvwal.hlc import to_text
from tests.repository.source import ROOT
from tests.support.cli import Ran, kvwal


class Stored(NamedTuple):
    """A root with its archive, and the timestamps of four changes of the map `jobs`."""

    root: Path
    times: list[int]

    def locations(self) -> Iterator[object]:
        yield self.root
        yield self.root / "_archive"
        yield f"file://{self.root / '_archive'}"

    def ask(self, command: str, *arguments: object, at: object) -> Ran:
        """The answer of every location, which is the same."""
        answers = [kvwal(command, location, *arguments, "--at", at) for location in self.locations()]
        assert answers == answers[:1] * 3
        return answers[0]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    with library.open(tmp_path / "data") as store:
        jobs = store.map("jobs")
        times = [
            jobs.put("a", {"n": 1}),
            jobs.put_many({"a": {"n": 2}, "b": 2}),
            jobs.delete("a"),
            jobs.put("c", 3, ttl=3600),
        ]
        store.archive()
    return Stored(tmp_path / "data", times)


def test_get_and_scan_and_export_answer_as_it_was(stored: Stored) -> None:
    first, second, third, last = stored.times
    assert stored.ask("get", "jobs", "a", at=first).out == '{"n":1}\n'
    assert stored.ask("get", "jobs", "a", at=second).out == '{"n":2}\n'
    gone = stored.ask("get", "jobs", "a", at=third)
    assert gone == Ran(1, "", f"kvwal: jobs had no 'a' at {to_text(third >> 16 << 16)}.\n")
    told = json.loads(stored.ask("get", "jobs", "c", "--json", at=last).out)
    assert (told["timestamp"], "expires" in told) == (str(last), True)
    assert stored.ask("scan", "jobs", "--format", "csv", at=second).out.split() == ["key,value", 'a,"{""n"":2}"', "b,2"]
    assert stored.ask("scan", "jobs", "--prefix", "b", "--json", at=last).out == '{"key":"b","value":2}\n'
    exported = stored.ask("export", "jobs", at=third).out
    assert [json.loads(line)["key"] for line in exported.splitlines()] == ["b"]


def test_a_time_is_taken_as_history_prints_it(stored: Stored) -> None:
    printed = kvwal("history", stored.root, "jobs", "a").out.splitlines()[1:]
    times = [line.split("  ")[0] for line in printed]
    assert times == [to_text(timestamp) for timestamp in stored.times[2::-1]]
    with library.open(stored.root) as store:
        many = [store.map("many").submit("a", number) for number in range(1000)]
        timestamps = [future.result() for future in many]
    for number, timestamp in list(enumerate(timestamps))[::100]:
        if timestamp & 0xFFFF:  # a first one of its millisecond is typed as the millisecond
            assert kvwal("get", stored.root, "many", "a", "--at", to_text(timestamp)).out == f"{number}\n"
    assert stored.ask("scan", "jobs", "--json", at="0s") == kvwal("scan", stored.root, "jobs", "--json")


def test_sql_answers_as_it_was_with_the_changes_up_to_then(stored: Stored) -> None:
    second = stored.times[1]
    select = "SELECT key, value FROM jobs ORDER BY key"
    everywhere = kvwal("query", stored.root, "SELECT * FROM jobs", "--at", second, "--namespace", "*", "--json")
    assert everywhere.out.count('"namespace":"default"') == 2
    assert stored.ask("query", select, "--format", "csv", at=second).out.split() == [
        "key,value",
        'a,"{""n"":2}"',
        "b,2",
    ]
    changes = "SELECT count(*) AS n FROM jobs_history"
    assert stored.ask("query", changes, "--json", at=second).out == '{"n":3}\n'


def test_recorded_applications_are_listed_as_they_were(tmp_path: Path) -> None:
    with library.open(tmp_path) as store:
        before = store.map("spark").put("before", 1)
    assert kvwal("record", tmp_path, ROOT / "tests" / "golden" / "event-log").code == 0
    for options in ((), ("--failed",), ("local-1795237371242",), ("--json",)):
        assert kvwal("jobs", tmp_path, *options, "--at", "0s").out == kvwal("jobs", tmp_path, *options).out
    assert kvwal("jobs", tmp_path, "--at", before, "--json") == Ran(0, "", "")


def test_a_time_before_the_first_entry_is_named(stored: Stored) -> None:
    """What was empty then is no error, and no answer without a word."""
    for command, *rest in (("scan", "jobs"), ("export", "jobs"), ("query", "SELECT key FROM jobs")):
        ran = stored.ask(command, *rest, at=stored.times[0] - (86_400_000 << 16))
        assert ran.code == 0
        assert ran.err.startswith("kvwal: jobs had no entry at 20")
        assert ran.out in ("", "key  value\n", "key\n")


def test_a_time_before_the_history_is_an_error(tmp_path: Path) -> None:
    with library.open(tmp_path, archive=None) as store:
        jobs = store.map("jobs")
        first = jobs.put("a", 1)
        jobs["a"] = 2
        store.checkpoint()
        jobs["a"] = 3
        store.checkpoint()
    for command, *rest in (
        ("get", "jobs", "a"),
        ("scan", "jobs"),
        ("export", "jobs"),
        ("query", "SELECT key FROM jobs"),
    ):
        ran = kvwal(command, tmp_path, *rest, "--archive", "none", "--at", first)
        assert ran.code == 2
        assert "without an archive the past ends at the last checkpoint" in ran.err


@pytest.mark.parametrize("typed", ["soon", "1999-12-31", "9999999w", "1", "2026-13-01"])
def test_what_is_no_time_is_refused(stored: Stored, typed: str) -> None:
    for location in stored.locations():
        for command, *rest in (("get", "jobs", "a"), ("scan", "jobs"), ("query", "SELECT 1"), ("jobs",)):
            assert kvwal(command, location, *rest, "--at", typed).code == 2


def test_a_mistyped_map_is_an_error_at_any_time(stored: Stored) -> None:
    assert "has no map 'jobz'" in stored_error(stored, stored.root)
    assert "has no map 'jobz'" in stored_error(stored, stored.root / "_archive")


def stored_error(stored: Stored, location: Path) -> str:
    ran = kvwal("get", location, "jobz", "a", "--at", stored.times[0])
    assert ran.code == 2
    return ran.err


def test_a_restore_takes_the_same_times(stored: Stored, tmp_path: Path) -> None:
    assert kvwal("restore", stored.root / "_archive", tmp_path / "new", "--at", "0s").code == 0
    assert kvwal("restore", stored.root / "_archive", tmp_path / "old", "--at", "1999-01-01").code == 2
