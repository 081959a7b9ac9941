"""The start and the end of a task, with every metric that Spark writes."""

from __future__ import annotations

import msgspec

from kvwal.console.sparkevents.events import Accumulable, BlockManager
from kvwal.spark.events.base import EventStruct, Int, spark_names


class TaskInfo(EventStruct, rename=spark_names()):
    """One attempt at one task."""

    task_id: Int
    index: Int
    attempt: Int = 0
    partition_id: Int = -1
    launch_time: Int = 0
    finish_time: Int = 0
    getting_result_time: Int = 0
    executor_id: str = ""
    host: str = ""
    locality: str = "ANY"
    speculative: bool = False
    failed: bool = False
    killed: bool = False
    accumulables: msgspec.Raw = msgspec.Raw()
    """Not decoded: only the tasks of SQL executions, and those that are shown, are asked for it."""

    @property
    def status(self) -> str:
        """Spark's word for how it stands."""
        if not self.finish_time:
            return "GET RESULT" if self.getting_result_time else "RUNNING"
        return "FAILED" if self.failed else "KILLED" if self.killed else "SUCCESS"


class TaskStart(EventStruct, rename=spark_names(attempt="Stage Attempt ID")):
    """A task was launched."""

    stage_id: Int
    task_info: TaskInfo
    attempt: Int = 0


class EndReason(EventStruct, rename=spark_names(job_id="Job ID", map_id="Map ID", reduce_id="Reduce ID")):
    """Spark's reason for the end of a task. `reason` says which of the other fields are set."""

    reason: str
    class_name: str = ""
    description: str = ""
    full_stack_trace: str | None = None
    message: str = ""
    loss_reason: str | None = None
    exit_caused_by_app: bool = msgspec.field(name="Exit Caused By App", default=True)
    kill_reason: str = "unknown reason"
    executor_id: str = ""
    block_manager_address: BlockManager | None = None
    shuffle_id: Int = 0
    map_id: Int = 0
    map_index: Int = -(1 << 31)
    reduce_id: Int = 0
    job_id: Int = -1
    partition_id: Int = -1
    attempt_number: Int = -1


class PushMetrics(EventStruct, rename=spark_names(remote_duration="Merged Remote Requests Duration")):
    """Data that a task read from merged shuffle files."""

    corrupt_merged_block_chunks: Int = 0
    merged_fetch_fallback_count: Int = 0
    merged_remote_blocks_fetched: Int = 0
    merged_local_blocks_fetched: Int = 0
    merged_remote_chunks_fetched: Int = 0
    merged_local_chunks_fetched: Int = 0
    merged_remote_bytes_read: Int = 0
    merged_local_bytes_read: Int = 0
    remote_duration: Int = 0


class ReadMetrics(
    EventStruct, rename=spark_names(remote_duration="Remote Requests Duration", push="Push Based Shuffle")
):
    """Data that a task read from other stages."""

    remote_blocks_fetched: Int = 0
    local_blocks_fetched: Int = 0
    fetch_wait_time: Int = 0
    remote_bytes_read: Int = 0
    remote_bytes_read_to_disk: Int = 0
    local_bytes_read: Int = 0
    total_records_read: Int = 0
    remote_duration: Int = 0
    push: PushMetrics | None = None


class WriteMetrics(EventStruct, rename=spark_names()):
    """Data that a task wrote for other stages."""

    shuffle_bytes_written: Int = 0
    shuffle_write_time: Int = 0
    shuffle_records_written: Int = 0


class InputMetrics(EventStruct, rename=spark_names()):
    """Data that a task read from outside Spark."""

    bytes_read: Int = 0
    records_read: Int = 0


class OutputMetrics(EventStruct, rename=spark_names()):
    """Data that a task wrote to the outside of Spark."""

    bytes_written: Int = 0
    records_written: Int = 0


class TaskMetrics(
    EventStruct,
    rename=spark_names(
        deserialize_cpu="Executor Deserialize CPU Time", cpu_ns="Executor CPU Time", gc_ms="JVM GC Time"
    ),
):
    """The metrics of a task."""

    executor_deserialize_time: Int = 0
    deserialize_cpu: Int = 0
    executor_run_time: Int = 0
    cpu_ns: Int = 0
    result_size: Int = 0
    gc_ms: Int = 0
    result_serialization_time: Int = 0
    memory_bytes_spilled: Int = 0
    disk_bytes_spilled: Int = 0
    peak_execution_memory: Int = 0
    input_metrics: InputMetrics | None = None
    output_metrics: OutputMetrics | None = None
    shuffle_read_metrics: ReadMetrics | None = None
    shuffle_write_metrics: WriteMetrics | None = None


class TaskEnd(
    EventStruct,
    rename=spark_names(attempt="Stage Attempt ID", reason="Task End Reason", peaks="Task Executor Metrics"),
):
    """A task ended, in success or failure."""

    stage_id: Int
    reason: EndReason
    task_info: TaskInfo | None = None
    attempt: Int = 0
    task_metrics: TaskMetrics | None = None
    peaks: dict[str, Int] | None = None


_decode_accumulables = msgspec.json.Decoder(list[Accumulable]).decode


def accumulables_of(task: TaskInfo) -> list[Accumulable]:
    """The accumulators that a task changed. Those that cannot be read are left out."""
    text = bytes(task.accumulables)
    if not text:
        return []
    try:
        return _decode_accumulables(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []


def error_of(reason: EndReason) -> str | None:
    """The error message of a task as Spark shows it; None for one that succeeded."""
    if reason.reason == "Success":
        return None
    return reason.kill_reason if reason.reason == "TaskKilled" else describe(reason)


def describe(reason: EndReason) -> str:
    """A reason in Spark's words."""
    match reason.reason:
        case "TaskKilled":
            return f"TaskKilled ({reason.kill_reason})"
        case "ExceptionFailure":
            return reason.full_stack_trace or f"{reason.class_name}: {reason.description}"
        case "FetchFailed":
            manager = reason.block_manager_address
            address = (
                "null" if manager is None
                else f"BlockManagerId({manager.executor_id}, {manager.host}, {manager.port}, None)"
            )  # fmt: skip
            return (
                f"FetchFailed({address}, shuffleId={reason.shuffle_id}, mapIndex={reason.map_index}, mapId={reason.map_id},"
                f" reduceId={reason.reduce_id}, message=\n{reason.message}\n)"
            )
        case "TaskCommitDenied":
            return (
                f"TaskCommitDenied (Driver denied task commit) for job: {reason.job_id}, partition: {reason.partition_id},"
                f" attemptNumber: {reason.attempt_number}"
            )
        case "ExecutorLostFailure":
            cause = (
                "caused by one of the running tasks" if reason.exit_caused_by_app else "unrelated to the running tasks"
            )
            lost = "" if reason.loss_reason is None else f" Reason: {reason.loss_reason}"
            return f"ExecutorLostFailure (executor {reason.executor_id} exited {cause}){lost}"
        case "TaskResultLost":
            return "TaskResultLost (result lost from block manager)"
        case "Resubmitted":
            return "Resubmitted (resubmitted due to lost executor)"
        case other:
            return other
