"""Events of jobs and stages."""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.spark.events.base import EventStruct, Int, spark_names


class JobProperties(
    EventStruct,
    rename={
        "description": "spark.job.description",
        "group": "spark.jobGroup.id",
        "sql": "spark.sql.execution.id",
        "call_site": "callSite.short",
        "batch": "streaming.sql.batchId",
        "query": "sql.streaming.queryId",
        "tags": "spark.job.tags",
        "pool": "spark.scheduler.pool",
    },
):
    """The local properties of the thread that started a job."""

    description: str = ""
    group: str = ""
    sql: str = ""
    call_site: str = ""
    batch: str = ""
    query: str = ""
    tags: str = ""
    pool: str = ""


class StackFrame(EventStruct, rename=spark_names()):
    """One frame of a Java stack trace. Its text is the line that Java prints."""

    declaring_class: str = ""
    method_name: str = ""
    file_name: str | None = None
    line_number: Int = -1

    def __str__(self) -> str:
        source = f"{self.file_name or 'Unknown Source'}" + (f":{self.line_number}" if self.line_number >= 0 else "")
        return f"\tat {self.declaring_class}.{self.method_name}({source})"


class JobException(EventStruct, rename=spark_names()):
    """The exception that failed a job."""

    message: str = ""
    stack_trace: list[StackFrame] = msgspec.field(default_factory=list)


class Accumulable(EventStruct, rename=spark_names()):
    """An accumulator of a stage. `value` is its total on the driver. Spark's own are `internal`."""

    id: Int = msgspec.field(name="ID", default=-1)
    name: str | None = None
    internal: bool = False
    value: Any = None
    metadata: str | None = None


class StorageLevel(EventStruct, rename=spark_names()):
    """Where an RDD is kept once it was computed: nowhere, if neither is set. As text it is Spark's description."""

    use_disk: bool = False
    use_memory: bool = False
    use_off_heap: bool = False
    deserialized: bool = False
    replication: Int = 1

    @property
    def is_kept(self) -> bool:
        """Whether an RDD of this level is kept at all."""
        return self.use_memory or self.use_disk

    def __str__(self) -> str:
        memory = ("Memory (off heap) " if self.use_off_heap else "Memory ") if self.use_memory else ""
        form = "Deserialized" if self.deserialized else "Serialized"
        return f"{'Disk ' if self.use_disk else ''}{memory}{form} {self.replication}x Replicated"


class RddInfo(
    EventStruct, rename=spark_names(rdd_id="RDD ID", call_site="Callsite", partitions="Number of Partitions")
):
    """An RDD that a stage computes, or has from a cache.

    `scope` is the operation of the program that made it, as JSON text: RDDs of one call have the same.
    """

    rdd_id: Int
    name: str | None = None
    scope: str | None = None
    call_site: str = ""
    partitions: Int = 0
    storage_level: StorageLevel = msgspec.field(default_factory=StorageLevel)


class StageInfo(EventStruct, rename=spark_names(attempt="Stage Attempt ID", profile="Resource Profile Id")):
    """One attempt of a stage. After the stage has ended it holds the result too."""

    stage_id: Int
    attempt: Int = 0
    stage_name: str = ""
    number_of_tasks: Int = 0
    parent_ids: list[Int] = msgspec.field(name="Parent IDs", default_factory=list)
    submission_time: Int | None = None
    completion_time: Int | None = None
    failure_reason: str | None = None
    profile: Int = 0
    accumulables: list[Accumulable] = msgspec.field(default_factory=list)
    rdds: list[RddInfo] = msgspec.field(name="RDD Info", default_factory=list)


class PlannedStage(EventStruct, rename=spark_names()):
    """Id, name and number of tasks of a stage, as the start of its job lists it.

    `completion_time` is missing where the stage has not ended, in an earlier job.
    """

    stage_id: Int
    stage_name: str = ""
    number_of_tasks: Int = 0
    completion_time: Int | None = None


class JobStart(EventStruct, rename=spark_names(stage_ids="Stage IDs")):
    """A job begins."""

    job_id: Int
    submission_time: Int = 0
    stage_infos: list[PlannedStage] = msgspec.field(default_factory=list)
    stage_ids: list[Int] = msgspec.field(default_factory=list)
    properties: JobProperties | None = None


class JobResult(EventStruct, rename=spark_names()):
    """The result of a job. `exception` is missing where the job succeeded."""

    result: str
    exception: JobException | None = None


class JobEnd(EventStruct, rename=spark_names()):
    """A job ends."""

    job_id: Int
    job_result: JobResult
    completion_time: Int = 0


class UnpersistRdd(EventStruct, rename=spark_names(rdd_id="RDD ID")):
    """An RDD is not kept any more."""

    rdd_id: Int


class StageSubmitted(EventStruct, rename=spark_names()):
    """A stage begins."""

    stage_info: StageInfo


class StageCompleted(EventStruct, rename=spark_names()):
    """A stage ends."""

    stage_info: StageInfo
