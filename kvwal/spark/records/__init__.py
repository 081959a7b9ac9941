"""The records of a Spark application: one a key, each a JSON object (docs/spark-metadata.md is the schema).

    <app>/app                       Application        <app>/sql/<id>                  Sql
    <app>/env                       Environment        <app>/stream/<query>            Stream
    <app>/executor/<id>             Executor           <app>/stream/<query>/<batch>    Batch
    <app>/job/<id>                  Job                <app>/log                       EventLogPosition
    <app>/stage/<id>/<attempt>      Stage              <app>/damage/<roll>/<event>     Damage
    <app>/rdd/<id>                  Rdd

`<app>` is the application's id, followed by `/<attempt>` where the cluster manager counts attempts. Numbers are padded with
zeros, so that keys sort as the numbers do. Moments are Unix milliseconds (0: not known), `*_ms` are durations.

The records are the whole state of a reader: a reader that goes on from a position needs nothing but the records it changes.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from kvwal.spark.records.parts import Access as Access
from kvwal.spark.records.parts import Accumulator as Accumulator
from kvwal.spark.records.parts import BatchSource as BatchSource
from kvwal.spark.records.parts import ClasspathFolder as ClasspathFolder
from kvwal.spark.records.parts import Error as Error
from kvwal.spark.records.parts import Histogram as Histogram
from kvwal.spark.records.parts import Histograms as Histograms
from kvwal.spark.records.parts import PlanEdge as PlanEdge
from kvwal.spark.records.parts import Quantiles as Quantiles
from kvwal.spark.records.parts import ResourceProfile as ResourceProfile
from kvwal.spark.records.parts import Slowest as Slowest
from kvwal.spark.records.parts import Speculation as Speculation
from kvwal.spark.records.parts import StageMetrics as StageMetrics
from kvwal.spark.records.parts import TaskFailure as TaskFailure
from kvwal.spark.records.parts import TaskQuantiles as TaskQuantiles
from kvwal.spark.records.positions import Damage as Damage
from kvwal.spark.records.positions import EventLogPosition as EventLogPosition
from kvwal.spark.records.texts import MAX_MESSAGE as MAX_MESSAGE
from kvwal.spark.records.texts import MAX_PLAN as MAX_PLAN
from kvwal.spark.records.texts import MAX_READ as MAX_READ
from kvwal.spark.records.texts import MAX_STACK as MAX_STACK
from kvwal.spark.records.texts import MAX_TEXT as MAX_TEXT
from kvwal.spark.records.texts import cut as cut
from kvwal.spark.versions import current

MOMENTS = frozenset({"started", "ended", "last_event", "added", "removed", "at", "watermark", "event_time_max"})
"""Fields that hold a moment, of any record: Unix milliseconds (0: not known), or text as Spark wrote it (empty: not known)."""


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


class Application(Totals, tag_field="kind", tag="app"):
    """One application, or one attempt of it.

    `status`: RUNNING, SUCCEEDED, FAILED, KILLED (its driver was killed or interrupted), or DETACHED (the recorder was closed
    before the application ended). `status_from` says whose word that is: `python` (a recorder saw how the driver's Python
    ended: see `endings`) or `spark` (an event log: SUCCEEDED says only that Spark stopped in order). `error` is the Python
    exception that ended it, `last_event` the time of its latest event. `excluded_hosts` are the hosts whose executors get no
    more tasks. `cores` are those of the executors that are there, or were at its end, and `core_ms` is the sum over all
    executors of cores times the time that the executor was there. A reader that goes on needs `core_offset_ms`: the sum over
    executors of cores times `added`, less that of cores times `removed`.
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
    excluded_hosts: list[str] = []
    cores: int = 0
    core_ms: int = 0
    core_offset_ms: int = 0
    damaged: int = 0
    dropped: int = 0


class Environment(msgspec.Struct, kw_only=True, tag_field="kind", tag="env"):
    """The settings of an application. Values that look like secrets are redacted.

    `spark`, `jvm`, `system` (the JVM's properties) and `metrics` are settings, `classpath` has the jars by folder.
    `left_out` is how many more there are, by field. `executor_memory_bytes` is the heap of an executor, by the number of its
    resource profile; all resources are in `profiles`.
    """

    jvm: dict[str, str] = {}
    spark: dict[str, str] = {}
    system: dict[str, str] = {}
    metrics: dict[str, str] = {}
    classpath: list[ClasspathFolder] = []
    left_out: dict[str, int] = {}
    executor_memory_bytes: dict[str, int] = {}
    profiles: list[ResourceProfile] = []


class Executor(Totals, tag_field="kind", tag="executor"):
    """A process that runs tasks, or the driver. `removed` is 0 until it leaves.

    `memory_bytes` is its heap as it was asked for, `storage_bytes` the part of its memory that Spark has for blocks. `profile` is
    the number of its resource profile, `resources` the addresses of its GPUs and the like, by kind. `logs` and `attributes` are
    those that the cluster manager tells. `peaks` are the greatest values of Spark's executor metrics, by Spark's names, without
    those that are 0. `excluded`: it gets no more tasks; `excluded_stages` are the stages of which it got no more tasks.
    """

    id: str = ""
    host: str = ""
    cores: int = 0
    memory_bytes: int = 0
    storage_bytes: int = 0
    profile: int = 0
    resources: dict[str, list[str]] = {}
    logs: dict[str, str] = {}
    attributes: dict[str, str] = {}
    peaks: dict[str, int] = {}
    excluded: bool = False
    excluded_stages: list[int] = []
    added: int = 0
    removed: int = 0
    reason: str = ""


class Job(Totals, tag_field="kind", tag="job"):
    """A job. `status`: RUNNING, SUCCEEDED, FAILED, KILLED. `stages` are the stages it needs, `ran` those that ran for it.

    `skipped` are the others, once it has ended: their result was there, or it failed before them. `planned` is the number of
    tasks of all stages that had not completed before it began, `stage_tasks` has those of each of its `stages`, and
    `skipped_tasks` counts those that did not run, as Spark does. `kill_reasons` has how many tasks were killed for what.
    `reads` and `writes` are those of its RDDs, not of its SQL.
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
    stage_tasks: list[int] = []
    skipped_tasks: int = 0
    kill_reasons: dict[str, int] = {}
    reads: list[Access] = []
    writes: list[Access] = []
    error: Error | None = None


class Stage(Totals, tag_field="kind", tag="stage"):
    """One attempt of a stage. `status`: RUNNING, SUCCEEDED, FAILED, KILLED. The quantiles are of successful tasks, within 1 %.

    `jobs` are the running jobs that needed it, `job` is the first of them. `skew` is the slowest task over the median. `profile`
    is the number of its resource profile. `peaks` are the greatest values of Spark's executor metrics while it ran, as an
    `Executor` has them. The executors and the hosts that were excluded got no more of its tasks. `accumulators` are those that
    the program named, and `accumulators_left` is how many more there are. `rdds` are those it computes or reads that are kept.

    A reader that goes on needs `buckets`, the histogram behind the quantiles of durations, `histograms`, those behind
    `quantiles`, the ranges of tasks already counted (`seen` when they ended, `resubmitted` when they were lost afterwards), and
    `sql_metrics` (None: the stage has counted for no SQL execution).
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
    quantiles: TaskQuantiles | None = None
    kill_reasons: dict[str, int] = {}
    speculation: Speculation | None = None
    accumulators: list[Accumulator] = []
    accumulators_left: int = 0
    profile: int = 0
    peaks: dict[str, int] = {}
    excluded_executors: list[str] = []
    excluded_hosts: list[str] = []
    rdds: list[int] = []
    failures: list[TaskFailure] = []
    error: Error | None = None
    buckets: dict[str, int] = {}
    histograms: Histograms | None = None
    seen: list[list[int]] = []
    resubmitted: list[list[int]] = []
    sql_metrics: StageMetrics | None = None

    def __post_init__(self) -> None:
        if self.job is not None and not self.jobs:  # as earlier versions stored it
            self.jobs = [self.job]


class EndedTasks(Protocol):
    """The tasks of a stage that ended: fields of a `Stage`, which readers of many stages have, too."""

    task_max_ms: int
    tasks: int
    failed: int
    killed: int


def has_task_times(stage: EndedTasks) -> bool:
    """Whether a stage has times of tasks: they are those of successful tasks, and there may be none."""
    return bool(stage.task_max_ms or stage.tasks > stage.failed + stage.killed)


class Rdd(msgspec.Struct, kw_only=True, tag_field="kind", tag="rdd"):
    """An RDD that Spark was told to keep: its storage `level` in Spark's words, its partitions, and the call that made it.

    `stage` is the first stage that computed it or read it. `unpersisted`: Spark was told to drop it.
    """

    id: int = 0
    name: str = ""
    level: str = ""
    partitions: int = 0
    call_site: str = ""
    stage: int = -1
    unpersisted: bool = False


class Metric(msgspec.Struct):
    """A metric of a plan's node (its number in the plan, and its name). `value` is None until Spark reports one.

    `node` is empty if the plan has no node with the metric: adaptive execution replaced the node, or announced the metric first.
    """

    node: str
    name: str
    type: str
    id: int
    value: int | None = None


class Sql(msgspec.Struct, kw_only=True, tag_field="kind", tag="sql"):
    """An SQL execution. `status`: RUNNING, SUCCEEDED, FAILED, KILLED. `root` is the execution it is a part of, or its own id.

    `settings` are those that the session had changed. `nodes` are those of the plan, each with its number, as `metrics` and
    accesses name them; `nodes_left` is how many more there are. Of a streaming query's batches only the first and the failed
    ones keep settings, plan and metrics, as all batches have the same.
    """

    id: int = 0
    root: int = 0
    description: str = ""
    call_site: str = ""
    settings: dict[str, str] = {}
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
    nodes: list[str] = []
    edges: list[PlanEdge] = []
    nodes_left: int = 0
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


class Batch(msgspec.Struct, kw_only=True, tag_field="kind", tag="batch"):
    """One batch of a streaming query: its offsets, its speed and its state, and the jobs and SQL executions that it ran.

    A rate is None where Spark measured none, as in the first batch.
    """

    query: str = ""
    run: str = ""
    name: str = ""
    batch: int = 0
    at: int = 0
    duration_ms: int = 0
    steps_ms: dict[str, int] = {}
    input_rows: int = 0
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    watermark: str = ""
    event_time_max: str = ""
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    sources: list[BatchSource] = []
    sink: str = ""
    output_rows: int = -1
    jobs: list[int] = []
    executions: list[int] = []


Record = Application | Environment | Executor | Job | Stage | Rdd | Sql | Stream | Batch | EventLogPosition | Damage


def to_value(record: Record) -> dict[str, Any]:
    """A record as the JSON object that is stored."""
    value: dict[str, Any] = msgspec.to_builtins(record)
    return value


def from_value(value: Any) -> Record:
    """The record of a stored object, of any version. Raises `msgspec.ValidationError` on anything else."""
    record: Record = msgspec.convert(current(value), Record)
    return record
