"""Queries over the records of Spark applications, on any map of records: of one node, or merged over all nodes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from kvwal.errors import ConfigError
from kvwal.spark.records import (
    Application,
    Batch,
    Damage,
    Error,
    Job,
    Record,
    Sql,
    Stage,
    Stream,
    from_value,
    job_key,
)

R = TypeVar("R", bound=Record)
LAST_RUNS = 30


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
    """All records of one application that `kvwal jobs` shows."""

    application: RecordedApplication
    jobs: list[Job]
    stages: list[Stage]
    sql: list[Sql]
    streams: list[Stream]
    batches: list[Batch]
    damage: list[Damage]


class RecordIndex(Mapping[str, object]):
    """Records with sorted keys, so that a search for a prefix reads no other keys."""

    def __init__(self, records: Mapping[str, object]) -> None:
        self._records = records
        self._keys = sorted(records)

    def __getitem__(self, key: str) -> object:
        return self._records[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def under(self, folder: str) -> list[str]:
        """The keys that begin with `folder`, which ends with a slash."""
        end = folder[:-1] + chr(ord("/") + 1)
        return self._keys[bisect_left(self._keys, folder) : bisect_left(self._keys, end)]


def indexed(records: Mapping[str, object]) -> RecordIndex:
    """The records with an index. Records without one are scanned once."""
    return records if isinstance(records, RecordIndex) else RecordIndex(records)


def applications(records: Mapping[str, object], since: int = 0) -> list[RecordedApplication]:
    """The applications with an event at or after `since` (Unix milliseconds), oldest first."""
    recorded = [
        RecordedApplication(key.removesuffix("/app"), app)
        for key in records
        if key.endswith("/app") and isinstance(app := from_value(records[key]), Application)
    ]
    alive = [application for application in recorded if application.app.last_event >= since]
    return sorted(alive, key=lambda application: (application.app.started, application.prefix))


def one_application(records: Mapping[str, object], wanted: str) -> RecordedApplication:
    """The application with this id, else the latest with this name, else the only one whose id begins so.

    Raises `ConfigError` if there is none, or if several ids begin so.
    """
    every = applications(records)
    exact = [application for application in every if wanted in (application.prefix, application.app.id)] or [
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


def of_kind(records: Mapping[str, object], prefix: str, folder: str, kind: type[R]) -> Iterator[R]:
    """An application's records of one kind, in the order of their keys."""
    for key in indexed(records).under(f"{prefix}/{folder}/"):
        if isinstance(record := from_value(records[key]), kind):
            yield record


def detail(records: Mapping[str, object], application: RecordedApplication) -> ApplicationDetail:
    """The records of an application, by kind."""
    every = [from_value(records[key]) for key in indexed(records).under(f"{application.prefix}/")]
    return ApplicationDetail(
        application, _only(every, Job), _only(every, Stage), _only(every, Sql), _only(every, Stream), _only(every, Batch),
        _only(every, Damage),
    )  # fmt: skip


def _only(records: Iterable[Record], kind: type[R]) -> list[R]:
    return [record for record in records if isinstance(record, kind)]


def failures(records: Mapping[str, object], since: int = 0) -> list[RecordedFailure]:
    """The failures at or after `since`: of applications, SQL executions, jobs and streaming queries, oldest first.

    A failed SQL execution and its failed jobs are one failure. It has a job's error, because a job has a stack and an
    execution has none.
    """
    records = indexed(records)
    every = [failure for each in applications(records, since) for failure in _failures_of(records, each)]
    return sorted((failure for failure in every if failure.at >= since), key=lambda failure: failure.at)


def _failures_of(records: Mapping[str, object], application: RecordedApplication) -> Iterator[RecordedFailure]:
    prefix, app = application
    if app.error is not None or app.status in ("FAILED", "KILLED"):
        error = app.error or Error(_reason(app))
        yield RecordedFailure(prefix, app, "application", app.ended or app.last_event, app.name, error)
    reported_jobs = set()
    if app.sql_failed:
        failed = [
            sql for sql in of_kind(records, prefix, "sql", Sql) if sql.error is not None and sql.status != "KILLED"
        ]
        roots = {sql.root for sql in failed if sql.root != sql.id}
        for sql in failed:
            if (
                sql.id not in roots and sql.error is not None
            ):  # a root fails when its part fails, and the part is reported
                jobs = [
                    job for number in sql.jobs if isinstance(job := _job(records, prefix, number), Job) and job.error
                ]
                reported_jobs |= {job.id for job in jobs}
                error = next((job.error for job in jobs if job.error), sql.error)
                yield RecordedFailure(prefix, app, f"sql {sql.id}", sql.ended, sql.description, error)
    if app.jobs_failed:
        for job in of_kind(records, prefix, "job", Job):
            if job.error is not None and job.status != "KILLED" and job.id not in reported_jobs:
                yield RecordedFailure(prefix, app, f"job {job.id}", job.ended, job.description or job.name, job.error)
    for stream in of_kind(records, prefix, "stream", Stream):
        if stream.error is not None:
            yield RecordedFailure(
                prefix, app, f"stream {stream.name or stream.id}", app.last_event, stream.name, stream.error
            )


def _reason(app: Application) -> str:
    """Why an application without an exception counts as failed."""
    if app.status == "KILLED":
        return "It was interrupted." if app.exit_code else "Its driver was killed."
    return f"It ended with exit code {app.exit_code}."


def _job(records: Mapping[str, object], prefix: str, number: int) -> Record | None:
    value = records.get(job_key(prefix, number))
    return None if value is None else from_value(value)


def runs(records: Mapping[str, object], name: str, last: int = LAST_RUNS) -> list[RecordedRun]:
    """The last runs of the applications called `name`, oldest first; without any, of SQL executions, else of jobs."""
    records = indexed(records)
    every = applications(records)
    named = [
        _run(application.prefix, "application", application.app, application.app.status)
        for application in every
        if application.app.name == name
    ]
    if not named:
        named = [
            _run(application.prefix, f"sql {sql.id}", sql, sql.status)
            for application in every
            for sql in of_kind(records, application.prefix, "sql", Sql)
            if sql.description == name and sql.root == sql.id
        ]
    if not named:
        named = [
            _run(application.prefix, f"job {job.id}", job, job.status)
            for application in every
            for job in of_kind(records, application.prefix, "job", Job)
            if name in (job.description, job.name)
        ]
    return sorted(named, key=lambda run: (run.started, run.prefix, run.what))[-last:]


def _run(prefix: str, what: str, record: Application | Job | Sql, status: str) -> RecordedRun:
    if isinstance(record, Sql):
        sides = [record.reads, record.writes]
        rows, size = next(
            ((sum(max(0, a.rows) for a in side), sum(max(0, a.bytes) for a in side)) for side in sides if side), (0, 0)
        )
    else:
        rows, size = record.input_rows or record.output_rows, record.input_bytes or record.output_bytes
    return RecordedRun(prefix, what, record.started, record.duration_ms, status, rows, size)
