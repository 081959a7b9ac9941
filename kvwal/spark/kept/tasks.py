"""The tasks of a stage attempt, a row each, from the lines of their start and their end."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kvwal.spark.events import lenient
from kvwal.spark.events.parser import DamagedLine, parse_line
from kvwal.spark.events.tasks import TaskEnd, TaskInfo, TaskMetrics, TaskStart
from kvwal.spark.kept.task_lines import StageAttempt, stage_of
from kvwal.spark.projection.task_statistics import KILLED, failure_message
from kvwal.spark.records import MAX_STACK, cut


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one task. Times are Unix milliseconds, 0 where they are not known: a task that runs has no end.

    `task` is Spark's number of this attempt, unique in the application. `attempt` counts the attempts at the task with this
    `index`. `status` is RUNNING, SUCCEEDED, FAILED or KILLED. A task that had succeeded and was lost with its executor is FAILED.
    """

    stage: int
    stage_attempt: int
    task: int
    index: int
    attempt: int
    partition: int
    executor: str
    host: str
    speculative: bool
    status: str
    launched: int
    ended: int = 0
    duration_ms: int = 0
    run_ms: int = 0
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
    message: str = ""
    stack: str = ""


def tasks_of(lines: Iterable[bytes], of: StageAttempt) -> list[Task]:
    """The tasks of a stage attempt, in the order of their numbers. Lines of other events, and damaged ones, are passed over.

    A task has the row of its last event: one that was told twice is there once.
    """
    found: dict[int, Task] = {}
    for line in lines:
        event = _task_event(line)
        if event is None or (event.stage_id, event.attempt) != of:
            continue
        number = event.task_info.task_id
        if isinstance(event, TaskEnd):
            found[number] = _ended(event)
        elif number not in found:
            found[number] = _begun(event.task_info, of, "RUNNING")
    return [found[number] for number in sorted(found)]


_decode_start = msgspec.json.Decoder(TaskStart).decode


def _task_event(line: bytes) -> TaskStart | TaskEnd | None:
    try:
        event = parse_line(line)
    except DamagedLine:
        return None
    if isinstance(event, TaskEnd):
        return event
    return _start(line) if event is None and stage_of(line) is not None else None


def _start(line: bytes) -> TaskStart | None:
    """The start of a task; None for a line that is damaged. `parse_line` passes over the event."""
    try:
        start = _decode_start(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            start = lenient.convert(lenient.load(line), TaskStart)
        except (ValueError, RecursionError, msgspec.DecodeError):
            return None
    return start


def _begun(info: TaskInfo, of: StageAttempt, status: str) -> Task:
    return Task(
        stage=of.stage, stage_attempt=of.attempt, task=info.task_id, index=info.index, attempt=info.attempt,
        partition=info.partition_id, executor=info.executor_id, host=info.host, speculative=info.speculative,
        status=status, launched=info.launch_time,
    )  # fmt: skip


def _ended(event: TaskEnd) -> Task:
    info, reason = event.task_info, event.reason
    metrics = event.task_metrics or TaskMetrics()
    read, write = metrics.shuffle_read_metrics, metrics.shuffle_write_metrics
    begun = _begun(info, StageAttempt(event.stage_id, event.attempt), _status(reason.reason))
    return msgspec.structs.replace(
        begun,
        ended=info.finish_time,
        duration_ms=max(0, info.finish_time - info.launch_time),
        run_ms=max(0, metrics.executor_run_time),
        cpu_ms=round(metrics.cpu_ns / 1e6, 3),
        gc_ms=metrics.gc_ms,
        input_bytes=metrics.input_metrics.bytes_read,
        input_rows=metrics.input_metrics.records_read,
        output_bytes=metrics.output_metrics.bytes_written,
        output_rows=metrics.output_metrics.records_written,
        shuffle_read_bytes=read.remote_bytes_read + read.local_bytes_read,
        shuffle_read_rows=read.total_records_read,
        shuffle_wait_ms=read.fetch_wait_time,
        shuffle_write_bytes=write.shuffle_bytes_written,
        shuffle_write_rows=write.shuffle_records_written,
        spill_memory_bytes=metrics.memory_bytes_spilled,
        spill_disk_bytes=metrics.disk_bytes_spilled,
        peak_memory_bytes=metrics.peak_execution_memory,
        message="" if reason.reason == "Success" else cut(reason.kill_reason) or failure_message(reason),
        stack=cut(reason.full_stack_trace, MAX_STACK),
    )


def _status(reason: str) -> str:
    if reason == "Success":
        return "SUCCEEDED"
    return "KILLED" if reason in KILLED else "FAILED"
