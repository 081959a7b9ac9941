"""The start of a task, and its end with its metrics."""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.spark.events import lenient
from kvwal.spark.events.base import EventStruct, Int, spark_names


class TaskEndReason(EventStruct, rename=spark_names()):
    """Spark's reason for the end of a task. `reason` says which of the other fields are set."""

    reason: str
    class_name: str = ""
    description: str = ""
    full_stack_trace: str = ""
    message: str = ""
    loss_reason: str = ""
    kill_reason: str = ""
    executor_id: str = ""


class AccumulatorUpdate(EventStruct, rename=spark_names()):
    """What a task added to an accumulator: `value`."""

    id: Int = msgspec.field(name="ID", default=-1)
    value: Any = msgspec.field(name="Update", default=None)


_decode_updates = msgspec.json.Decoder(list[AccumulatorUpdate]).decode


class TaskInfo(EventStruct, rename=spark_names()):
    """One attempt of one task."""

    task_id: Int
    index: Int
    attempt: Int = 0
    partition_id: Int = -1
    launch_time: Int = 0
    finish_time: Int = 0
    getting_result_time: Int = 0
    executor_id: str = ""
    host: str = ""
    speculative: bool = False
    failed: bool = False
    killed: bool = False
    accumulables: msgspec.Raw = msgspec.Raw()
    """Not decoded: only tasks of SQL executions are asked for it. `updates_of` decodes it."""


class TaskStart(EventStruct, rename=spark_names(attempt="Stage Attempt ID")):
    """A task was launched. `attempt` is that of the stage. Records have ended tasks only, so `parser` passes over this event."""

    stage_id: Int
    task_info: TaskInfo
    attempt: Int = 0


class ShuffleReadMetrics(EventStruct, rename=spark_names()):
    """Data that a task read from other stages."""

    fetch_wait_time: Int = 0
    remote_bytes_read: Int = 0
    local_bytes_read: Int = 0
    total_records_read: Int = 0


class ShuffleWriteMetrics(EventStruct, rename=spark_names()):
    """Data that a task wrote for other stages."""

    shuffle_bytes_written: Int = 0
    shuffle_records_written: Int = 0


class InputMetrics(EventStruct, rename=spark_names()):
    """Data that a task read from outside Spark."""

    bytes_read: Int = 0
    records_read: Int = 0


class OutputMetrics(EventStruct, rename=spark_names()):
    """Data that a task wrote to the outside of Spark."""

    bytes_written: Int = 0
    records_written: Int = 0


class TaskMetrics(EventStruct, rename=spark_names(cpu_ns="Executor CPU Time", gc_ms="JVM GC Time")):
    """Time, memory and data of one task. Times are milliseconds unless the name says otherwise."""

    executor_run_time: Int = 0
    executor_deserialize_time: Int = 0
    result_serialization_time: Int = 0
    cpu_ns: Int = 0
    gc_ms: Int = 0
    peak_execution_memory: Int = 0
    memory_bytes_spilled: Int = 0
    disk_bytes_spilled: Int = 0
    shuffle_read_metrics: ShuffleReadMetrics = msgspec.field(default_factory=ShuffleReadMetrics)
    shuffle_write_metrics: ShuffleWriteMetrics = msgspec.field(default_factory=ShuffleWriteMetrics)
    input_metrics: InputMetrics = msgspec.field(default_factory=InputMetrics)
    output_metrics: OutputMetrics = msgspec.field(default_factory=OutputMetrics)


class TaskEnd(EventStruct, rename=spark_names(attempt="Stage Attempt ID", reason="Task End Reason")):
    """A task ended, in success or failure. `attempt` is that of the stage.

    `task_metrics` is missing where the executor was lost together with the task.
    """

    stage_id: Int
    reason: TaskEndReason
    task_info: TaskInfo
    attempt: Int = 0
    task_metrics: TaskMetrics | None = None


def updates_of(task: TaskInfo) -> list[AccumulatorUpdate]:
    """What a task added to accumulators. An update that cannot be read is left out."""
    text = bytes(task.accumulables)
    if not text:
        return []
    try:
        return _decode_updates(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        updates = lenient.load(text)
        return lenient.convert(updates if isinstance(updates, list) else [], list[AccumulatorUpdate])
