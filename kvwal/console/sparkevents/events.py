"""Events of Spark with the fields that its REST API shows and records do not hold."""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.spark.events.base import EventStruct, Int, spark_names
from kvwal.spark.events.jobs import JobResult, StorageLevel


class EnvironmentUpdate(EventStruct, rename=spark_names(jvm="JVM Information")):
    """All settings of an application."""

    jvm: dict[str, str] = msgspec.field(default_factory=dict)
    spark_properties: dict[str, str] = msgspec.field(default_factory=dict)
    hadoop_properties: dict[str, str] = msgspec.field(default_factory=dict)
    system_properties: dict[str, str] = msgspec.field(default_factory=dict)
    metrics_properties: dict[str, str] = msgspec.field(default_factory=dict)
    classpath_entries: dict[str, str] = msgspec.field(default_factory=dict)


class ExecutorRequest(EventStruct, rename=spark_names()):
    """What an executor of a profile asks for, of one resource."""

    resource_name: str = ""
    amount: Int = 0
    discovery_script: str = ""
    vendor: str = ""


class TaskRequest(EventStruct, rename=spark_names()):
    """What a task of a profile asks for, of one resource."""

    resource_name: str = ""
    amount: float = 0.0


class ResourceProfileAdded(
    EventStruct,
    rename=spark_names(
        profile="Resource Profile Id", executor="Executor Resource Requests", task="Task Resource Requests"
    ),
):
    """A resource profile."""

    profile: Int
    executor: dict[str, ExecutorRequest] = msgspec.field(default_factory=dict)
    task: dict[str, TaskRequest] = msgspec.field(default_factory=dict)


class BlockManager(EventStruct, rename=spark_names()):
    """A block manager: its executor, host and port."""

    executor_id: str = ""
    host: str = ""
    port: Int = 0


class BlockManagerAdded(
    EventStruct,
    rename=spark_names(
        block_manager="Block Manager ID", on_heap="Maximum Onheap Memory", off_heap="Maximum Offheap Memory"
    ),
):
    """An executor, or the driver, has memory for blocks. Earlier versions do not tell how much of it is on the heap."""

    block_manager: BlockManager
    timestamp: Int = 0
    maximum_memory: Int = 0
    on_heap: Int | None = None
    off_heap: Int = 0


class BlockUpdate(EventStruct, rename=spark_names(block_manager="Block Manager ID", block_id="Block ID")):
    """A block, and where it is stored now."""

    block_manager: BlockManager
    block_id: str = ""
    storage_level: StorageLevel = msgspec.field(default_factory=StorageLevel)
    memory_size: Int = 0
    disk_size: Int = 0


class BlockUpdated(EventStruct, rename=spark_names(update="Block Updated Info")):
    """A block was stored, moved or dropped. Spark writes it with `spark.eventLog.logBlockUpdates.enabled` only."""

    update: BlockUpdate


class ProcessDetails(EventStruct, rename="camel"):
    """Host, cores and logs of a process."""

    host_port: str = ""
    cores: Int = 0
    log_url_info: dict[str, str] = msgspec.field(default_factory=dict)


class ProcessAdded(EventStruct, rename="camel"):
    """A process of the cluster manager beside the executors began."""

    process_id: str
    time: Int = 0
    info: ProcessDetails = msgspec.field(default_factory=ProcessDetails)


class Accumulable(EventStruct, rename=spark_names()):
    """An accumulator: what a task added to it, and its value."""

    id: Int = msgspec.field(name="ID", default=-1)
    name: str | None = None
    update: Any = None
    value: Any = None
    internal: bool = False
    metadata: str | None = None


class Rdd(EventStruct, rename=spark_names(rdd_id="RDD ID", partitions="Number of Partitions")):
    """An RDD of a stage."""

    rdd_id: Int
    name: str | None = None
    partitions: Int = 0
    storage_level: StorageLevel = msgspec.field(default_factory=StorageLevel)


class StageInfo(
    EventStruct,
    rename=spark_names(
        attempt="Stage Attempt ID", profile="Resource Profile Id", rdds="RDD Info",
        push_enabled="Shuffle Push Enabled", push_mergers="Shuffle Push Mergers Count",
    ),
):  # fmt: skip
    """One attempt at a stage."""

    stage_id: Int
    attempt: Int = 0
    stage_name: str = ""
    number_of_tasks: Int = 0
    rdds: list[Rdd] = msgspec.field(default_factory=list)
    details: str = ""
    submission_time: Int | None = None
    completion_time: Int | None = None
    failure_reason: str | None = None
    accumulables: list[Accumulable] = msgspec.field(default_factory=list)
    profile: Int = 0
    push_enabled: bool = False
    push_mergers: Int = 0


class Properties(
    EventStruct,
    rename={
        "description": "spark.job.description",
        "group": "spark.jobGroup.id",
        "tags": "spark.job.tags",
        "pool": "spark.scheduler.pool",
        "sql": "spark.sql.execution.id",
    },
):
    """The local properties of the thread that started a job."""

    description: str | None = None
    group: str | None = None
    tags: str | None = None
    pool: str | None = None
    sql: str | None = None


class JobStart(EventStruct, rename=spark_names(stage_ids="Stage IDs")):
    """A job begins."""

    job_id: Int
    submission_time: Int = 0
    stage_infos: list[StageInfo] = msgspec.field(default_factory=list)
    stage_ids: list[Int] = msgspec.field(default_factory=list)
    properties: Properties | None = None


class JobEnd(EventStruct, rename=spark_names()):
    """A job ends."""

    job_id: Int
    job_result: JobResult
    completion_time: Int = 0


class StageSubmitted(EventStruct, rename=spark_names()):
    """A stage begins."""

    stage_info: StageInfo
    properties: Properties | None = None


class StageCompleted(EventStruct, rename=spark_names()):
    """A stage ends."""

    stage_info: StageInfo
