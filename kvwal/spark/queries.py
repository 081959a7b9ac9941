"""The questions people ask of what was recorded, over any map of records: of one node, or merged over all."""

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


class Found(NamedTuple):
    """An application: what its keys begin with, and its record."""

    prefix: str
    app: Application


class Failed(NamedTuple):
    """Something that failed."""

    prefix: str
    app: Application
    what: str
    at: int
    title: str
    error: Error


class Run(NamedTuple):
    """One run of something that has a name. `rows` and `bytes` are what it read, or wrote if it read nothing."""

    prefix: str
    what: str
    started: int
    duration_ms: int
    status: str
    rows: int
    bytes: int


class Detail(NamedTuple):
    """All that is told of one application."""

    found: Found
    jobs: list[Job]
    stages: list[Stage]
    sql: list[Sql]
    streams: list[Stream]
    batches: list[Batch]
    damage: list[Damage]


class Indexed(Mapping[str, object]):
    """Records with their keys in order: those that begin alike are found without looking at the others."""

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
        after = folder[:-1] + chr(ord("/") + 1)
        return self._keys[bisect_left(self._keys, folder) : bisect_left(self._keys, after)]


def indexed(records: Mapping[str, object]) -> Indexed:
    """The records with an index, which is made in one scan unless they have it."""
    return records if isinstance(records, Indexed) else Indexed(records)


def applications(records: Mapping[str, object], since: int = 0) -> list[Found]:
    """Every application that was alive at or after the moment `since`, oldest first."""
    found = [
        Found(key.removesuffix("/app"), app)
        for key in records
        if key.endswith("/app") and isinstance(app := from_value(records[key]), Application)
    ]
    return sorted((one for one in found if one.app.last_event >= since), key=lambda one: (one.app.started, one.prefix))


def one_application(records: Mapping[str, object], wanted: str) -> Found:
    """The application of this id (or beginning of one), or the latest of this name. `ConfigError` where none or several fit."""
    every = applications(records)
    exact = [one for one in every if wanted in (one.prefix, one.app.id)] or [
        one for one in every if one.app.name == wanted
    ]
    if exact:
        return exact[-1]
    begins = [one for one in every if one.prefix.startswith(wanted)]
    if len(begins) == 1:
        return begins[0]
    known = ", ".join(f"{one.prefix} ({one.app.name})" for one in (begins or every)[-5:]) or "none"
    what = (
        f"Several applications here begin with {wanted!r}." if begins else f"There is no application {wanted!r} here."
    )
    raise ConfigError(what, hint=f"The latest: {known}.")


def of_kind(records: Mapping[str, object], prefix: str, folder: str, kind: type[R]) -> Iterator[R]:
    """An application's records of one kind, in the order of their keys."""
    for key in indexed(records).under(f"{prefix}/{folder}/"):
        if isinstance(record := from_value(records[key]), kind):
            yield record


def detail(records: Mapping[str, object], found: Found) -> Detail:
    """Everything that is told of an application."""
    every = [from_value(records[key]) for key in indexed(records).under(f"{found.prefix}/")]
    return Detail(
        found, _only(every, Job), _only(every, Stage), _only(every, Sql), _only(every, Stream), _only(every, Batch),
        _only(every, Damage),
    )  # fmt: skip


def _only(records: Iterable[Record], kind: type[R]) -> list[R]:
    return [record for record in records if isinstance(record, kind)]


def failures(records: Mapping[str, object], since: int = 0) -> list[Failed]:
    """What failed at or after `since`: applications, SQL executions, jobs and streaming queries, oldest first.

    A job of a failed SQL execution is told with the execution, once: with the job's stack, as the execution has none.
    """
    records = indexed(records)
    found = [failed for one in applications(records, since) for failed in _failures_of(records, one)]
    return sorted((failed for failed in found if failed.at >= since), key=lambda failed: failed.at)


def _failures_of(records: Mapping[str, object], one: Found) -> Iterator[Failed]:
    prefix, app = one
    if app.error is not None:
        yield Failed(prefix, app, "application", app.ended or app.last_event, app.name, app.error)
    told = set()
    if app.sql_failed:
        failed = [sql for sql in of_kind(records, prefix, "sql", Sql) if sql.error is not None]
        wholes = {sql.root for sql in failed if sql.root != sql.id}
        for sql in failed:
            if sql.id not in wholes and sql.error is not None:  # a whole fails with its part: told once
                jobs = [
                    job for number in sql.jobs if isinstance(job := _job(records, prefix, number), Job) and job.error
                ]
                told |= {job.id for job in jobs}
                error = next((job.error for job in jobs if job.error), sql.error)
                yield Failed(prefix, app, f"sql {sql.id}", sql.ended, sql.description, error)
    if app.jobs_failed:
        for job in of_kind(records, prefix, "job", Job):
            if job.error is not None and job.id not in told:
                yield Failed(prefix, app, f"job {job.id}", job.ended, job.description or job.name, job.error)
    for stream in of_kind(records, prefix, "stream", Stream):
        if stream.error is not None:
            yield Failed(prefix, app, f"stream {stream.name or stream.id}", app.last_event, stream.name, stream.error)


def _job(records: Mapping[str, object], prefix: str, number: int) -> Record | None:
    value = records.get(job_key(prefix, number))
    return None if value is None else from_value(value)


def runs(records: Mapping[str, object], name: str, last: int = LAST_RUNS) -> list[Run]:
    """The last runs of whatever is called `name`, oldest first: applications, else SQL executions, else jobs."""
    records = indexed(records)
    every = applications(records)
    found = [_run(one.prefix, "application", one.app, one.app.status) for one in every if one.app.name == name]
    if not found:
        found = [
            _run(one.prefix, f"sql {sql.id}", sql, sql.status)
            for one in every
            for sql in of_kind(records, one.prefix, "sql", Sql)
            if sql.description == name and sql.root == sql.id
        ]
    if not found:
        found = [
            _run(one.prefix, f"job {job.id}", job, job.status)
            for one in every
            for job in of_kind(records, one.prefix, "job", Job)
            if name in (job.description, job.name)
        ]
    return sorted(found, key=lambda run: (run.started, run.prefix, run.what))[-last:]


def _run(prefix: str, what: str, record: Application | Job | Sql, status: str) -> Run:
    if isinstance(record, Sql):
        sides = [record.reads, record.writes]
        rows, size = next(
            ((sum(max(0, a.rows) for a in side), sum(max(0, a.bytes) for a in side)) for side in sides if side), (0, 0)
        )
    else:
        rows, size = record.input_rows or record.output_rows, record.input_bytes or record.output_bytes
    return Run(prefix, what, record.started, record.duration_ms, status, rows, size)
