"""Digests of applications: what the page of one needs of all of its records, read once and kept while they are the same."""

from __future__ import annotations

from collections import OrderedDict
from heapq import nlargest
from typing import Any, NamedTuple

from kvwal.console.sparkreads.app_records import BriefSql, BriefStage, TimelineJob, decoded, every_record
from kvwal.ports.locks import Lock
from kvwal.spark import index, queries
from kvwal.spark.queries import RecordedApplication, RecordedFailure
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Access, EventLogPosition, Executor, Stream

SLOWEST = 10
"""Stages of an application that its page shows."""
_MOST_JOBS = 20_000
_MOST_ACCESSES = 200
MOST_BARS = 400
"""Jobs that a timeline shows each for itself. Of more it shows how many began at a time, and the digest has no descriptions."""
_KEPT = 16


class Accessed(NamedTuple):
    """A read or a write of the application's SQL executions, and the execution that did it first.

    `of_stream`: that one was a batch of a streaming query.
    """

    writes: bool
    access: Access
    execution: int
    of_stream: bool


class TimelineStage(NamedTuple):
    """An attempt of a stage as a timeline shows it."""

    id: int
    attempt: int
    name: str
    status: str
    started: int
    ended: int


class Digest(NamedTuple):
    """What the page of an application shows of its jobs, stages, executors, SQL executions and streams.

    `jobs` and `stages` are the first 20,000, and `failures` are all. `slow` are the stages with most task time,
    `skewed` how many stages are skewed, and `missing_roll` the file of its event log that is not there; 0 if none is missing.
    """

    jobs: list[TimelineJob]
    stages: list[TimelineStage]
    executors: list[Executor]
    slow: list[BriefStage]
    skewed: int
    accesses: list[Accessed]
    streams: list[Stream]
    missing_roll: int
    failures: list[RecordedFailure]


def digest_of(records: RecordReader, recorded: RecordedApplication, skewed_from: float) -> Digest:
    """The digest of an application. It reads all of its records, and decodes only the fields that it needs."""
    jobs: list[TimelineJob] = []
    executors: list[Executor] = []
    stages: list[BriefStage] = []
    streams: list[Stream] = []
    spans: list[TimelineStage] = []
    accesses: dict[tuple[bool, str, str, str], Accessed] = {}
    skewed = missing_roll = 0
    for folder, stored in every_record(records, recorded.prefix):
        record: Any
        if folder == "stage":
            if (record := decoded(stored, BriefStage)) is not None:
                skewed += record.skew >= skewed_from
                stages.append(record)
                if record.started and len(spans) < _MOST_JOBS:
                    end = record.ended or (record.started + record.duration_ms if record.duration_ms else 0)
                    spans.append(
                        TimelineStage(record.id, record.attempt, record.name, record.status, record.started, end)
                    )
                if len(stages) > 4096:
                    stages = nlargest(SLOWEST, stages, key=_task_time)
        elif folder == "job":
            if len(jobs) < _MOST_JOBS and (record := decoded(stored, TimelineJob)) is not None:
                jobs.append(record)
        elif folder == "executor":
            if (record := decoded(stored, Executor)) is not None:
                executors.append(record)
        elif folder == "sql":
            if len(accesses) < _MOST_ACCESSES and (record := decoded(stored, BriefSql)) is not None:
                for writes, side in ((False, record.reads), (True, record.writes)):
                    for access in side:
                        key = (writes, access.what, access.where, access.table)
                        accesses.setdefault(key, Accessed(writes, access, record.id, bool(record.stream)))
        elif folder == "stream":
            if stored.key.count("/") == recorded.prefix.count("/") + 2 and (record := decoded(stored, Stream)):
                streams.append(record)
        elif folder == "log" and (record := decoded(stored, EventLogPosition)) is not None:
            missing_roll = record.missing_roll
    app = recorded.app
    if len(jobs) > MOST_BARS:
        jobs = [TimelineJob(id=job.id, status=job.status, started=job.started, ended=job.ended) for job in jobs]
    may_have_failed = index.failed(app.status, app.error) or app.jobs_failed + app.sql_failed > 0 or bool(streams)
    failures = queries.failures(records, of=recorded) if may_have_failed else []
    return Digest(
        jobs, spans, executors, nlargest(SLOWEST, stages, key=_task_time), skewed, list(accesses.values()), streams, missing_roll,
        failures,
    )  # fmt: skip


def _task_time(stage: BriefStage) -> int:
    return stage.run_ms or stage.duration_ms


class Digests:
    """The digests of the applications that were looked at last. That of one that goes on is made anew after each event."""

    def __init__(self, skewed_from: float) -> None:
        self._skewed_from = skewed_from
        self._lock = Lock()
        self._kept: OrderedDict[str, tuple[object, Digest]] = OrderedDict()

    def of(self, records: RecordReader, recorded: RecordedApplication) -> Digest:
        """The digest of an application as its record is now."""
        with self._lock:
            kept = self._kept.get(recorded.prefix)
        if kept is not None and kept[0] == recorded.app:
            return kept[1]
        made = digest_of(records, recorded, self._skewed_from)
        with self._lock:
            self._kept[recorded.prefix] = (recorded.app, made)
            self._kept.move_to_end(recorded.prefix)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made
