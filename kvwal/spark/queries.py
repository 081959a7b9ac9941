"""Queries over the records of Spark applications, on any reader of records: of one node, or merged over all nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from kvwal.errors import ConfigError
from kvwal.spark import index
from kvwal.spark.index import Failure
from kvwal.spark.record_reader import MappingReader, RecordReader, StoredRecord, everything, under
from kvwal.spark.records import Application, Batch, Error, EventLogPosition, Job, Sql, Stage

LAST_RUNS = 30
_AFTER_END_MS = 3_600_000
"""Time after the last event of an application in which its failures are still looked for: Spark cancels jobs while it stops."""
Records = RecordReader | Mapping[str, object]
"""Records with a reader, or a mapping of all of them."""


class RecordedApplication(NamedTuple):
    """An application: the prefix of its keys, and its record."""

    prefix: str
    app: Application


class RecordedFailure(NamedTuple):
    """A failed application, SQL execution, job or streaming query: `what` says which, `at` when (Unix milliseconds)."""

    prefix: str
    app: Application
    what: str
    at: int
    title: str
    error: Error


class RecordedRun(NamedTuple):
    """One run of an application, SQL execution or job. `rows` and `bytes` count its input, or its output if it read nothing."""

    prefix: str
    what: str
    started: int
    duration_ms: int
    status: str
    rows: int
    bytes: int


class ApplicationDetail(NamedTuple):
    """The records of one application that `kvwal jobs` shows. `left_out` counts the earlier ones of each kind, by its name.

    `may_have_failed` is false if nothing of the application failed. Reading of its event log stopped before `missing_roll`,
    which is not there; 0 if none is missing.
    """

    application: RecordedApplication
    jobs: list[Job]
    stages: list[Stage]
    sql: list[Sql]
    batches: list[Batch]
    damaged: int
    left_out: dict[str, int]
    may_have_failed: bool
    missing_roll: int = 0


def indexed(records: Records) -> RecordReader:
    """The reader of these records. A mapping is sorted once."""
    return MappingReader(records) if isinstance(records, Mapping) else records


def applications(records: Records, since: int = 0) -> list[RecordedApplication]:
    """The applications with an event, or their end, at or after `since` (Unix milliseconds), oldest first."""
    recorded = [RecordedApplication(prefix, app) for prefix, app in indexed(records).applications()]
    alive = [each for each in recorded if max(each.app.last_event, each.app.ended) >= since]
    return sorted(alive, key=lambda application: (application.app.started, application.prefix))


def lasted_ms(app: Application) -> int:
    """The duration of an application, of one that runs up to its last event."""
    return app.duration_ms if app.ended or not app.started else max(0, app.last_event - app.started)


def one_application(records: Records, wanted: str) -> RecordedApplication:
    """The application with this id, else the latest with this name, else the only one whose id begins so.

    Raises `ConfigError` if there is none, or if several ids begin so.
    """
    records = indexed(records)
    if (app := records.application(wanted)) is not None:
        return RecordedApplication(wanted, app)
    every = applications(records)
    exact = [application for application in every if application.app.id == wanted] or [
        application for application in every if application.app.name == wanted
    ]
    if exact:
        return exact[-1]
    begin = [application for application in every if application.prefix.startswith(wanted)]
    if len(begin) == 1:
        return begin[0]
    latest = (begin or every)[-5:]
    names = ", ".join(f"{application.prefix} ({application.app.name})" for application in latest) or "none"
    problem = (
        f"The ids of several applications begin with {wanted!r}."
        if begin
        else f"There is no application {wanted!r} here."
    )
    raise ConfigError(problem, hint=f"The latest: {names}.")


def attempts(records: Records, application: RecordedApplication) -> list[RecordedApplication]:
    """The attempts of an application that its cluster manager ran again, this one among them, oldest first."""
    return [each for each in applications(records) if each.app.id == application.app.id] if application.app.id else []


def detail(records: Records, application: RecordedApplication, limit: int | None = None) -> ApplicationDetail:
    """The records of an application, by kind: of each kind the last `limit`. The earlier ones are counted, and not decoded."""
    folder = f"{application.prefix}/"
    last: dict[str, deque[StoredRecord]] = {
        kind: deque(maxlen=limit) for kind in ("job", "stage", "sql", "batch", "damage")
    }
    counts, app, missing_roll = dict.fromkeys(last, 0), application.app, 0
    may_have_failed = index.failed(app.status, app.error) or app.jobs_failed + app.sql_failed > 0
    for stored in under(indexed(records), folder):
        kind, *rest = stored.key[len(folder) :].split("/")
        name = "batch" if kind == "stream" and len(rest) == 2 else kind
        if name in last:
            last[name].append(stored)
            counts[name] += 1
        elif stored.key == f"{folder}log":
            missing_roll = stored.of(EventLogPosition).missing_roll
        may_have_failed |= name == "stream"
    damaged = counts.pop("damage")
    return ApplicationDetail(
        application,
        [stored.of(Job) for stored in last["job"]],
        [stored.of(Stage) for stored in last["stage"]],
        [stored.of(Sql) for stored in last["sql"]],
        [stored.of(Batch) for stored in last["batch"]],
        damaged,
        {name: count - len(last[name]) for name, count in counts.items()},
        may_have_failed,
        missing_roll,
    )


def failures(records: Records, since: int = 0, of: RecordedApplication | None = None) -> list[RecordedFailure]:
    """The failures at or after `since`: of applications, SQL executions, jobs and streaming queries, oldest first.

    With `of`, those of one application. A failed SQL execution and its failed jobs are one failure. It has a job's error,
    because a job has a stack and an execution has none.
    """
    records = indexed(records)
    if records.has_index:
        low, high = index.failures_since(max(since, of.app.started if of else 0)), index.AFTER_FAILURES
        if of is not None and of.app.ended:
            high = index.failures_since(max(of.app.ended, of.app.last_event) + _AFTER_END_MS)
        recorded = [each.of(Failure) for each in records.between(low, high)]
    else:
        every = [of] if of else applications(records, since)
        recorded = [failure for application in every for failure in _scan_failures(records, application)]
    prefixes = {of.prefix} if of else {failure.app for failure in recorded}
    failed = [RecordedApplication(each, app) for each in prefixes if (app := records.application(each)) is not None]
    failed.sort(key=lambda application: (application.app.started, application.prefix))
    shown = [failure for application, own in _by_application(failed, recorded) for failure in _joined(application, own)]
    return sorted((failure for failure in shown if failure.at >= since), key=attrgetter("at"))


def _scan_failures(records: RecordReader, application: RecordedApplication) -> Iterator[Failure]:
    """The failures of an application from all of its records."""
    prefix, app = application
    values = {f"{prefix}/app": {**msgspec.to_builtins(app), "kind": "app"}}
    kinds = ("job", app.jobs_failed), ("sql", app.sql_failed), ("stream", True)
    for folder, any_failed in kinds:
        if any_failed:
            values |= {stored.key: stored.value() for stored in under(records, f"{prefix}/{folder}/")}
    entries = index.index_entries(values)
    return (msgspec.convert(value, Failure) for value in entries.values() if value["kind"] == "failure")


def _by_application(
    every: list[RecordedApplication], failures: list[Failure]
) -> Iterator[tuple[RecordedApplication, list[Failure]]]:
    """The failures of each of these applications, in the order of the applications."""
    ordered = sorted(failures, key=attrgetter("app"))
    own = {prefix: list(group) for prefix, group in groupby(ordered, key=attrgetter("app"))}
    return ((application, own[application.prefix]) for application in every if application.prefix in own)


def _joined(application: RecordedApplication, failures: list[Failure]) -> Iterator[RecordedFailure]:
    """The failures of one application to show: a failed SQL execution with its jobs and its parts is one failure."""
    prefix, app = application
    executions = {failure.sql: failure for failure in failures if failure.root is not None}
    parents = {failure.root for failure in executions.values() if failure.root != failure.sql}
    jobs: dict[int | None, list[Failure]] = {}
    for failure in failures:
        if failure.what.startswith("job ") and failure.sql in executions and failure.sql not in parents:
            jobs.setdefault(failure.sql, []).append(failure)
    joined = {failure.what for group in jobs.values() for failure in group}
    for failure in failures:
        error = failure.error
        if failure.what == "application":
            if not index.failed(app.status, app.error) or failure.at != (app.ended or app.last_event):
                continue  # the application ended in another way later
            error = app.error or Error(_reason(app))
        elif failure.what in joined or (failure.root is not None and failure.sql in parents):
            continue  # a root fails when its part fails, and the part is shown
        elif failure.root is not None and failure.sql in jobs:
            error = next((job.error for job in jobs[failure.sql] if job.error), error)
        yield RecordedFailure(prefix, app, failure.what, failure.at, failure.title, error or Error(""))


def _reason(app: Application) -> str:
    """Why an application without an exception counts as failed."""
    if app.status == "KILLED":
        return "It was interrupted." if app.exit_code else "Its driver was killed."
    return f"It ended with exit code {app.exit_code}."


def runs(records: Records, name: str, last: int = LAST_RUNS) -> list[RecordedRun]:
    """The last runs of the applications called `name`, oldest first; without any, of SQL executions, else of jobs."""
    records = indexed(records)
    named = runs_of((each for each in applications(records) if each.app.name == name), last)
    if named:
        return named
    sql, jobs = _runs_of_parts(records, name)
    return _last_of(sql or jobs, last)


def runs_of(recorded: Iterable[RecordedApplication], last: int = LAST_RUNS) -> list[RecordedRun]:
    """The last runs of these applications, oldest first."""
    return _last_of([_run(each.prefix, "application", each.app, each.app.status) for each in recorded], last)


def _last_of(found: list[RecordedRun], last: int) -> list[RecordedRun]:
    return sorted(found, key=lambda run: (run.started, run.prefix, run.what))[-last:]


def _runs_of_parts(records: RecordReader, name: str) -> tuple[list[RecordedRun], list[RecordedRun]]:
    """The SQL executions and the jobs called `name`. All records are looked at, and those decoded that have the name."""
    sql, jobs, text = [], [], msgspec.json.encode(name)[1:-1]
    for stored in everything(records):
        prefix, _, folder = stored.key.rpartition("/")[0].rpartition("/")
        if folder not in ("sql", "job") or not stored.may_contain(text):
            continue
        record = stored.record()
        if isinstance(record, Sql) and record.description == name and record.root == record.id:
            sql.append(_run(prefix, f"sql {record.id}", record, record.status))
        elif isinstance(record, Job) and name in (record.description, record.name):
            jobs.append(_run(prefix, f"job {record.id}", record, record.status))
    return sql, jobs


def _run(prefix: str, what: str, record: Application | Job | Sql, status: str) -> RecordedRun:
    if isinstance(record, Sql):
        sides = [record.reads, record.writes]
        rows, size = next(
            ((sum(max(0, a.rows) for a in side), sum(max(0, a.bytes) for a in side)) for side in sides if side), (0, 0)
        )
    else:
        rows, size = record.input_rows or record.output_rows, record.input_bytes or record.output_bytes
    return RecordedRun(prefix, what, record.started, record.duration_ms, status, rows, size)
