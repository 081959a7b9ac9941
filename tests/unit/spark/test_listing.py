"""The list of applications is read from the index, and says what a scan of all records says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kvwal
from kvwal.entry import DataEntry
from kvwal.spark import index, queries
from kvwal.spark import records as rec
from kvwal.spark.eventlog import log_reader
from kvwal.spark.eventlog.logs import find_logs, identify
from kvwal.spark.events import application as events
from kvwal.spark.events import jobs, sql
from kvwal.spark.record_keys import app_prefix, job_key
from kvwal.spark.record_reader import ClusterRecords, IndexedReader, RecordReader, StoredRecord, reader_of
from kvwal.store.read_only import ReadOnlyBusiness
from kvwal.store.sync import ReadOnlyStore
from tests.support.applications import SECOND, ran, store_events, stream_that_failed
from tests.support.cli import kvwal as command
from tests.support.spark_records import DyingMap, Killed

DAY = 86_400 * SECOND
FIRST = 1_790_000_000_000


def write(root: Path, node: str = "local", *, first: int = 0, with_index: bool = True) -> None:
    """Three applications a day apart: the second fails a job, the third is killed and its stream fails."""
    with kvwal.open(root, node=node, archive=None, flush="os") as store:
        for number in range(first, first + 3):
            prefix, started = f"app-{number}", FIRST + number * DAY
            told = ran(prefix, started, failed=(1,) if number == first + 1 else (), ends=number < first + 2)
            if number == first + 2:
                told += [*stream_that_failed("q/1"), events.Detached(started + DAY // 2, killed=True)]
            store_events(store, prefix, told, with_index=with_index)


def read(root: Path, ask: Callable[[RecordReader], Any]) -> Any:
    with kvwal.open(root, read_only=True) as store:
        assert isinstance(store, ReadOnlyStore)
        return ask(reader_of(store.read_business("spark")))


def scan(root: Path) -> dict[str, Any]:
    """All records, in memory."""
    with kvwal.open(root, read_only=True) as store:
        return dict(store.map("spark").items())


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "applications": queries.applications,
    "applications since": lambda records: queries.applications(records, FIRST + DAY),
    "one application": lambda records: queries.one_application(records, "report"),
    "failures": queries.failures,
    "failures since": lambda records: queries.failures(records, FIRST + 2 * DAY),
    "failures of one": lambda records: queries.failures(records, of=queries.one_application(records, "app-1")),
    "runs": lambda records: queries.runs(records, "report"),
    "runs of a part": lambda records: queries.runs(records, "step 1"),
    "detail": lambda records: queries.detail(records, queries.one_application(records, "app-1")),
}


def plain(answer: Any) -> str:
    """An answer whose applications may be summaries."""
    return repr(answer).replace("Summary(", "Application(")


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("nodes", [1, 2])
def test_the_index_and_a_scan_give_the_same_answer(tmp_path: Path, question: str, nodes: int) -> None:
    for number in range(nodes):
        write(tmp_path, f"n{number}", first=3 * number)
    ask = QUESTIONS[question]
    answer = read(tmp_path, ask)
    assert answer
    assert plain(answer) == plain(ask(scan(tmp_path)))
    assert read(tmp_path, lambda records: records.has_index)


def test_a_failed_execution_and_its_job_are_one_failure_and_an_application_is_another(tmp_path: Path) -> None:
    write(tmp_path)
    failed = [(failure.what, failure.error.message) for failure in read(tmp_path, queries.failures)]
    assert failed == [
        ("sql 1", "step 1 has no input"),
        ("stream counts", "it broke"),
        ("application", "Its driver was killed."),
    ]


def test_the_list_reads_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    keys: list[bytes] = []
    between = ReadOnlyBusiness.between

    def noted(self: ReadOnlyBusiness, low: Any, high: Any) -> Iterator[DataEntry]:
        for entry in between(self, low, high):
            keys.append(entry.key)
            yield entry

    monkeypatch.setattr(ReadOnlyBusiness, "between", noted)
    assert "app-2" in command("jobs", tmp_path).out
    assert keys == [b"=app/=local", b"=app/app-0", b"=app/app-1", b"=app/app-2"]
    assert "step 1" in command("jobs", tmp_path, "--failed", "--since", "2026-01-01").out
    assert not [key for key in keys if not key.startswith(b"=")]


def test_a_node_of_an_earlier_version_is_scanned_until_it_is_indexed(tmp_path: Path) -> None:
    write(tmp_path, "new")
    write(tmp_path, "old", first=3, with_index=False)
    assert not read(tmp_path, lambda records: records.has_index)
    before = {name: plain(read(tmp_path, ask)) for name, ask in QUESTIONS.items()}
    assert "app-5" in before["applications"]
    assert "no whole index yet" in command("jobs", tmp_path).err
    with kvwal.open(tmp_path, node="old", archive=None) as store:
        for _ in range(2):
            index.complete_index(store.map("spark"), "old")
    assert read(tmp_path, lambda records: records.has_index)
    assert {name: plain(read(tmp_path, ask)) for name, ask in QUESTIONS.items()} == before
    assert not command("jobs", tmp_path).err


def test_the_index_of_an_old_node_is_the_one_that_would_have_been_recorded(tmp_path: Path) -> None:
    for name, with_index in (("old", False), ("new", True)):
        write(tmp_path / name, with_index=with_index)
    with kvwal.open(tmp_path / "old", archive=None) as store:
        index.complete_index(store.map("spark"), "local")
    assert scan(tmp_path / "old") == scan(tmp_path / "new")


def test_an_index_that_is_completed_slowly_is_not_older_than_the_records(tmp_path: Path) -> None:
    """While all records are read, the reader of an application writes its end, and its summary."""
    write(tmp_path, with_index=False)
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        records = store.map("spark")

        class Slow:
            get, put_many, commit_if = records.get, records.put_many, records.commit_if

            def items(self) -> Iterator[tuple[str, Any]]:
                yield from list(records.items())
                store_events(store, "app-2", ran("app-2", FIRST + 9 * DAY, name="ended since"))
                records.submit_many({}, [key for key in records if key.startswith("app-1/")]).result()

        index.complete_index(Slow(), "local")
        summary = records[index.summary_key("app-2")]
        assert {**summary, "kind": "app"} == records["app-2/app"]
        assert summary["name"] == "ended since"
        assert index.summary_key("app-1") not in records


def test_an_application_that_ended_well_after_all_is_no_failure(tmp_path: Path) -> None:
    told = [*ran("app", FIRST, ends=False), events.Detached(FIRST + 5, error="it broke", status="FAILED", exit_code=1)]
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        store_events(store, "app", told)
        assert [failure.what for failure in read(tmp_path, queries.failures)] == ["application"]
        store_events(store, "app", [events.Attached(), events.Detached(FIRST + 9, status="SUCCEEDED", exit_code=0)])
    assert not read(tmp_path, queries.failures)
    assert len([key for key in scan(tmp_path) if key.startswith(index.FAILURES)]) == 1


def test_a_key_of_the_index_is_that_of_no_application() -> None:
    for app in ("=app", "=failed/1", "app/=x", "="):
        assert index.is_application_key(app_prefix(app))
    assert index.application_of_failure("=failed/000000000000007/app-1/2/job-4") == "app-1/2"


def test_a_mark_is_no_application(tmp_path: Path) -> None:
    write(tmp_path)
    ran = command("jobs", tmp_path, "=local")
    assert (ran.code, "There is no application '=local' here." in ran.err) == (2, True)


def test_a_part_of_a_failed_execution_is_shown_and_not_its_root(tmp_path: Path) -> None:
    failed = [sql.SqlStart(0, time=1), sql.SqlStart(1, time=1, root_execution_id=0, description="the part")]
    failed += [sql.SqlEnd(number, FIRST + number, "it broke") for number in (1, 0)]
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        store_events(store, "app", [*ran("app", FIRST, count=0, ends=False), *failed])
    for records in (None, scan(tmp_path)):
        shown = read(tmp_path, queries.failures) if records is None else queries.failures(records)
        assert [(failure.what, failure.title) for failure in shown] == [("sql 1", "the part")]


def test_a_job_that_spark_cancels_while_it_stops_is_among_the_failures_and_later_applications_are_not_read(
    tmp_path: Path,
) -> None:
    cancelled = jobs.JobResult("JobFailed", jobs.JobException("Job 7 cancelled because SparkContext was shut down", []))
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        told = [*ran("app", FIRST, ends=False), jobs.JobStart(job_id=7, submission_time=FIRST)]
        ends = [events.ApplicationEnd(FIRST + 9 * SECOND), jobs.JobEnd(7, cancelled, FIRST + 20 * SECOND)]
        store_events(store, "app", [*told, *ends])
        for number in range(20):
            store_events(store, f"later-{number}", ran(f"later-{number}", FIRST + DAY + number, failed=(1,)))
    with kvwal.open(tmp_path, read_only=True) as reader:
        assert isinstance(reader, ReadOnlyStore)
        records = Counting(reader.read_business("spark"))
        shown = queries.failures(records, of=queries.one_application(records, "app"))
    assert [(failure.what, failure.at) for failure in shown] == [("job 7", FIRST + 20 * SECOND)]
    assert records.failures == 1


class Counting(IndexedReader):
    """Counts the failures that are read."""

    failures = 0

    def between(self, low: str, high: str) -> Iterator[StoredRecord]:
        for stored in super().between(low, high):
            self.failures += stored.key.startswith(index.FAILURES)
            yield stored


def test_the_last_applications_are_shown_and_the_number_of_the_others_is_said(tmp_path: Path) -> None:
    write(tmp_path)
    ran = command("jobs", tmp_path, "--limit", "2")
    assert [line.split()[0] for line in ran.out.splitlines() if line.startswith("app")] == ["app-1", "app-2"]
    assert "1 earlier applications are not shown: see --limit and --since." in ran.err
    assert "job 1" not in ran.out
    every = command("jobs", tmp_path, "--limit", "0")
    assert "app-0" in every.out
    assert not every.err
    told = [json.loads(line) for line in command("jobs", tmp_path, "--json", "--limit", "1").out.splitlines()]
    assert [one["kind"] for one in told] == ["app", "job", "job", "job"] * 3
    assert {one["app"] for one in told if one["kind"] == "job"} == {"app-0", "app-1", "app-2"}


def test_one_application_shows_its_last_jobs(tmp_path: Path) -> None:
    write(tmp_path)
    ran = command("jobs", tmp_path, "app-1", "--limit", "1")
    assert "job 2" in ran.out
    assert "job 1 " not in ran.out
    assert "Earlier ones are not shown: 2 jobs, 2 SQL executions. See --limit." in ran.err
    assert "sql 1 failed at" in ran.out
    assert "0 jobs" not in command("jobs", tmp_path, "app-1").err


def test_the_last_failures_are_shown(tmp_path: Path) -> None:
    write(tmp_path)
    ran = command("jobs", tmp_path, "--failed", "--limit", "1")
    assert "Its driver was killed." in ran.out
    assert "has no input" not in ran.out
    assert "2 earlier failures are not shown" in ran.err


def test_a_reader_of_the_index_reads_what_the_store_has_at_its_first_question(tmp_path: Path) -> None:
    write(tmp_path)
    with kvwal.open(tmp_path, read_only=True) as store:
        assert isinstance(store, ReadOnlyStore)
        records = IndexedReader(store.read_business("spark"))
        assert len(queries.applications(records)) == 3
        write(tmp_path, "other", first=3)
        assert len(queries.applications(records)) == 3


def test_killed_at_every_transaction_the_index_is_that_of_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log,) = find_logs([Path(__file__).resolve().parent.parent.parent / "golden" / "event-log"])
    identity = identify(log)
    assert identity is not None
    monkeypatch.setattr(log_reader, "MAX_PENDING", 5_000)
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        records = store.map("spark")
        dying = DyingMap(records)
        complete = False
        while not complete:
            reader = log_reader.LogReader(dying, log, identity)
            with suppress(Killed):
                reader.advance()
            reader.close()
            complete = records.get(f"{identity.app}/log", {}).get("complete", False)
            own = {key: value for key, value in records.items() if index.is_application_key(key)}
            assert dict(records.items()) == own | index.index_entries(own)
        assert dying.kills > 10
        assert len([key for key in records if not index.is_application_key(key)]) == 3


def test_a_cluster_is_asked_for_the_index_and_for_one_application() -> None:
    entries: dict[str, Any] = {"=app/=cluster": index.mark_value()}
    for number in range(3):
        app = rec.to_value(rec.Application(id=f"app-{number}", name="n", started=number + 1, last_event=number + 1))
        job = rec.to_value(rec.Job(id=1, name="count", status="SUCCEEDED"))
        recorded = {f"app-{number}/app": app, job_key(f"app-{number}", 1): job}
        entries |= recorded | index.index_entries(recorded)
    asked: list[str] = []

    def scan(prefix: str) -> list[DataEntry]:
        asked.append(prefix)
        found = [key for key in sorted(entries, reverse=True) if key.startswith(prefix)]
        return [DataEntry(key.encode(), "str", msgspec.json.encode(entries[key]), "json", False, 1, 0) for key in found]

    records = reader_of(ClusterRecords(scan))
    assert [each.prefix for each in queries.applications(records)] == ["app-0", "app-1", "app-2"]
    (one,) = queries.detail(records, queries.one_application(records, "app-1")).jobs
    assert (one.name, asked) == ("count", ["=app", "app-1"])
    del entries["=app/=cluster"]
    entries["=app/=app-0"] = index.mark_value()  # of a node with this name
    asked.clear()
    assert len(queries.applications(reader_of(ClusterRecords(scan)))) == 3
    assert asked == ["=app", ""], "without a mark all records are read"


def test_all_attempts_of_an_application_are_named(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        for attempt, code in (("1", 1), ("2", 0)):
            start = events.ApplicationStart("nightly", FIRST + int(attempt), "ada", "app-7", attempt)
            store_events(store, f"app-7/{attempt}", [start, events.ApplicationEnd(FIRST + DAY, code)])
        store_events(store, "app-8", ran("app-8", FIRST))
    for asked in ("app-7", "nightly"):
        shown = command("jobs", tmp_path, asked)
        assert "nightly (app-7/2)" in shown.out
        assert "app-7 was tried 2 times: app-7/1 (FAILED), app-7/2 (SUCCEEDED). This is app-7/2" in shown.err
    assert "app-7/1 (FAILED)" in command("jobs", tmp_path, "app-7", "--failed").err
    assert not command("jobs", tmp_path, "app-7/1").err
    assert not command("jobs", tmp_path, "app-8").err
