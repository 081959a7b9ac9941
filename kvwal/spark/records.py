"""The records of a Spark application: one a key, each a JSON object (docs/spark-metadata.md is the schema).

    <app>/app                       Application        <app>/sql/<id>                  Sql
    <app>/env                       Environment        <app>/stream/<query>            Stream
    <app>/executor/<id>             Executor           <app>/stream/<query>/<batch>    Batch
    <app>/job/<id>                  Job                <app>/log                       Position
    <app>/stage/<id>/<attempt>      Stage              <app>/damage/<roll>/<event>     Damage

`<app>` is the application's id, followed by `/<attempt>` where the cluster manager counts attempts. Numbers are padded with
zeros, so that keys sort as the numbers do. Moments are Unix milliseconds (0: not known), `*_ms` are durations.

The records are the whole state of a reader: a reader that goes on from a position needs nothing but the records it changes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.spark.redaction import redacted
from kvwal.spark.versions import current

MAX_MESSAGE = 4_000
MAX_STACK = 8_000
MAX_PLAN = 60_000
MAX_TEXT = 1_000
MAX_READ = 1_000_000
"""Characters of a text that are redacted and may be stored. The rest is never read."""
_CUT = " … cut … "
MOMENTS = frozenset({"started", "ended", "last_event", "added", "removed", "at", "watermark", "event_time_max"})
"""Fields that hold a moment, of any record: Unix milliseconds (0: not known), or text as Spark wrote it (empty: not known)."""


def cut(text: str | None, limit: int = MAX_TEXT) -> str:
    """`text` without its secrets, cut to `limit` characters: its head and its tail, since a cause usually stands at an end."""
    if not text:
        return ""
    text = redacted(text[:MAX_READ])
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return text[:head] + _CUT + text[len(text) - (limit - head - len(_CUT)) :]


class Totals(msgspec.Struct, kw_only=True):
    """Sums over tasks. `tasks` counts all that ended, `failed` and `killed` ones included."""

    tasks: int = 0
    failed: int = 0
    killed: int = 0
    run_ms: int = 0
    scheduler_delay_ms: int = 0
    cpu_ms: float = 0.0
    gc_ms: int = 0
    input_bytes: int = 0
    input_rows: int = 0
    output_bytes: int = 0
    output_rows: int = 0
    shuffle_read_bytes: int = 0
    shuffle_read_rows: int = 0
    shuffle_wait_ms: int = 0
    shuffle_write_bytes: int = 0
    shuffle_write_rows: int = 0
    spill_memory_bytes: int = 0
    spill_disk_bytes: int = 0
    peak_memory_bytes: int = 0


class Error(msgspec.Struct):
    """An error: message and stack, both bounded."""

    message: str
    stack: str = ""


class Application(Totals, tag_field="kind", tag="app"):
    """One application, or one attempt of it.

    `status`: RUNNING, SUCCEEDED, FAILED, KILLED (its driver was killed or interrupted), or DETACHED (the recorder was closed
    before the application ended). `status_from` says whose word that is: `python` (a recorder saw how the driver's Python
    ended: see `endings`) or `spark` (an event log: SUCCEEDED says only that Spark stopped in order). `error` is the Python
    exception that ended it, `last_event` the time of its latest event. `cores` are those of the executors that are there, or
    were at its end, and `core_ms` is the sum over all executors of cores times the time that the executor was there. A reader
    that goes on needs `core_offset_ms`: the sum over executors of cores times `added`, less that of cores times `removed`.
    """

    id: str = ""
    attempt: str = ""
    name: str = ""
    user: str = ""
    spark_version: str = ""
    status: str = "RUNNING"
    status_from: str = ""
    started: int = 0
    ended: int = 0
    duration_ms: int = 0
    last_event: int = 0
    exit_code: int | None = None
    error: Error | None = None
    jobs: int = 0
    jobs_failed: int = 0
    stages: int = 0
    stages_failed: int = 0
    sql: int = 0
    sql_failed: int = 0
    cores: int = 0
    core_ms: int = 0
    core_offset_ms: int = 0
    damaged: int = 0
    dropped: int = 0


class Environment(msgspec.Struct, kw_only=True, tag_field="kind", tag="env"):
    """The settings of an application. Values that look like secrets are redacted.

    `executor_memory_bytes` is the heap of an executor, by the number of its resource profile.
    """

    jvm: dict[str, str] = {}
    spark: dict[str, str] = {}
    executor_memory_bytes: dict[str, int] = {}


class Executor(Totals, tag_field="kind", tag="executor"):
    """A process that runs tasks, or the driver. `removed` is 0 until it leaves.

    `memory_bytes` is its heap as it was asked for, `storage_bytes` the part of its memory that Spark has for blocks.
    """

    id: str = ""
    host: str = ""
    cores: int = 0
    memory_bytes: int = 0
    storage_bytes: int = 0
    added: int = 0
    removed: int = 0
    reason: str = ""


class Access(msgspec.Struct):
    """A source or target of data: its format, its path, and its table in a catalog (`catalog.database.table`).

    `node` is the plan's node. -1: there is no metric for it.
    """

    what: str
    where: str = ""
    node: str = ""
    rows: int = -1
    bytes: int = -1
    files: int = -1
    table: str = ""


class Job(Totals, tag_field="kind", tag="job"):
    """A job. `status`: RUNNING, SUCCEEDED, FAILED, KILLED. `stages` are the stages it needs, `ran` those that ran for it.

    `skipped` are the others, once it has ended: their result was there, or it failed before them. `planned` is the number of
    tasks of all stages that had not completed before it began. `reads` and `writes` are those of its RDDs, not of its SQL.
    """

    id: int = 0
    name: str = ""
    description: str = ""
    group: str = ""
    tags: list[str] = []
    pool: str = ""
    sql: int | None = None
    stream: str = ""
    batch: int | None = None
    status: str = "RUNNING"
    started: int = 0
    ended: int = 0
    duration_ms: int = 0
    planned: int = 0
    stages: list[int] = []
    ran: list[int] = []
    skipped: list[int] = []
    reads: list[Access] = []
    writes: list[Access] = []
    error: Error | None = None


class Slowest(msgspec.Struct):
    """The longest task of a stage, with the facts that explain its time."""

    ms: int = 0
    task: int = -1
    index: int = -1
    partition: int = -1
    executor: str = ""
    host: str = ""
    input_bytes: int = 0
    shuffle_read_bytes: int = 0


class TaskFailure(msgspec.Struct):
    """Tasks that failed with the same message: their number, and the first of them."""

    message: str
    stack: str = ""
    count: int = 0
    task: int = -1
    executor: str = ""
    host: str = ""


class Stage(Totals, tag_field="kind", tag="stage"):
    """One attempt of a stage. `status`: RUNNING, SUCCEEDED, FAILED, KILLED. The quantiles are of successful tasks, within 1 %.

    `jobs` are the running jobs that needed it, `job` is the first of them. `skew` is the slowest task over the median. A reader
    that goes on needs `buckets`, the histogram behind the quantiles, and the ranges of tasks already counted: `seen` when they
    ended, `resubmitted` when they were lost afterwards.
    """

    id: int = 0
    attempt: int = 0
    job: int | None = None
    jobs: list[int] = []
    name: str = ""
    status: str = "RUNNING"
    started: int = 0
    ended: int = 0
    duration_ms: int = 0
    planned: int = 0
    parents: list[int] = []
    task_min_ms: int = 0
    task_p25_ms: int = 0
    task_median_ms: int = 0
    task_p75_ms: int = 0
    task_p95_ms: int = 0
    task_max_ms: int = 0
    skew: float = 0.0
    slowest: Slowest | None = None
    failures: list[TaskFailure] = []
    error: Error | None = None
    buckets: dict[str, int] = {}
    seen: list[list[int]] = []
    resubmitted: list[list[int]] = []

    def __post_init__(self) -> None:
        if self.job is not None and not self.jobs:  # as earlier versions stored it
            self.jobs = [self.job]


class Metric(msgspec.Struct):
    """A metric of a plan's node (its number in the plan, and its name). `value` is None until Spark reports one."""

    node: str
    name: str
    type: str
    id: int
    value: int | None = None


class Sql(msgspec.Struct, kw_only=True, tag_field="kind", tag="sql"):
    """An SQL execution. `status`: RUNNING, SUCCEEDED, FAILED, KILLED. `root` is the execution it is a part of, or its own id.

    Of a streaming query's batches only the first and the failed ones keep plan and metrics, as all batches have the same.
    """

    id: int = 0
    root: int = 0
    description: str = ""
    call_site: str = ""
    stream: str = ""
    batch: int | None = None
    status: str = "RUNNING"
    started: int = 0
    ended: int = 0
    duration_ms: int = 0
    jobs: list[int] = []
    reads: list[Access] = []
    writes: list[Access] = []
    error: Error | None = None
    plan: str = ""
    metrics: list[Metric] = []


class Stream(msgspec.Struct, kw_only=True, tag_field="kind", tag="stream"):
    """A streaming query. `status`: RUNNING, SUCCEEDED (stopped), FAILED. Sums are over the batches recorded.

    `broken_sql` are the SQL executions of its last batch that ended with an error: a reader that goes on needs them when it ends.
    `ended` is the time of the latest event before its end, because Spark's end event has no time. `running` and `running_sql`
    are the jobs and SQL executions since the last batch: they become the `jobs` and `executions` of the next one.
    """

    id: str = ""
    run: str = ""
    name: str = ""
    status: str = "RUNNING"
    started: int = 0
    ended: int = 0
    last_batch: int = -1
    batches: int = 0
    input_rows: int = 0
    watermark: str = ""
    error: Error | None = None
    broken_sql: list[int] = []
    running: list[int] = []
    running_sql: list[int] = []


class Source(msgspec.Struct):
    """A source of a batch: its description, its offsets as text, and the rows that the batch read from it."""

    what: str = ""
    start: str = ""
    end: str = ""
    latest: str = ""
    rows: int = 0


class Batch(msgspec.Struct, kw_only=True, tag_field="kind", tag="batch"):
    """One batch of a streaming query: its offsets, its speed and its state, and the jobs and SQL executions that it ran."""

    query: str = ""
    run: str = ""
    name: str = ""
    batch: int = 0
    at: int = 0
    duration_ms: int = 0
    steps_ms: dict[str, int] = {}
    input_rows: int = 0
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    watermark: str = ""
    event_time_max: str = ""
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    sources: list[Source] = []
    sink: str = ""
    output_rows: int = -1
    jobs: list[int] = []
    executions: list[int] = []


class Position(msgspec.Struct, kw_only=True, tag_field="kind", tag="log"):
    """The position in the log of an application: `event` lines of its `roll`-th file are read (0: the log is one file).

    `running` and `running_sql` are the jobs and SQL executions that began and have not ended. `complete`: the log was read to
    its end, and Spark has finished it. `event_crc` is the crc32 of the last line read (0: not known). In a file without
    compression the line after the first `offset_event` begins at byte `offset`. `passed_jobs` and `passed_stages` are the last
    ones of dropped batches of streams whose events came again.
    """

    roll: int = 0
    event: int = 0
    events: int = 0
    damaged: int = 0
    path: str = ""
    complete: bool = False
    event_crc: int = 0
    offset: int = 0
    offset_event: int = 0
    running: list[int] = []
    running_sql: list[int] = []
    passed_jobs: list[int] = []
    passed_stages: list[int] = []


class Damage(msgspec.Struct, kw_only=True, tag_field="kind", tag="damage"):
    """A damaged line: its place, its problem, and its beginning and end."""

    path: str = ""
    roll: int = 0
    event: int = 0
    problem: str = ""
    text: str = ""


Record = Application | Environment | Executor | Job | Stage | Sql | Stream | Batch | Position | Damage


def to_value(record: Record) -> dict[str, Any]:
    """A record as the JSON object that is stored."""
    value: dict[str, Any] = msgspec.to_builtins(record)
    return value


def from_value(value: Any) -> Record:
    """The record of a stored object, of any version. Raises `msgspec.ValidationError` on anything else."""
    record: Record = msgspec.convert(current(value), Record)
    return record
