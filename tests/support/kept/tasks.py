"""The tasks of kept logs, beside those that the History Server shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvwal.spark.kept.contents import ReadContents, kept_logs
from kvwal.spark.kept.reader import KeptLog
from kvwal.spark.kept.task_lines import StageAttempt
from kvwal.spark.kept.tasks import Task, tasks_of

Of = tuple[str, StageAttempt]
"""The prefix of an application, and a stage attempt of it."""
Row = tuple[Any, ...]
STATUS = {"SUCCESS": "SUCCEEDED", "FAILED": "FAILED", "KILLED": "KILLED", "RUNNING": "RUNNING"}
_DETAILS = "?details=true"


def kept_tasks(contents: ReadContents) -> dict[Of, list[Task]]:
    """The tasks of all stages of all kept logs, found by their indexes."""
    found: dict[Of, list[Task]] = {}
    for name in kept_logs(contents):
        with contents.open(str(name)) as file:
            log = KeptLog(file, contents.stat(str(name)).length)
            found |= {(name.prefix, of): tasks_of(log.lines(of), of) for of, _ in log.stages()}
    return found


def shown_tasks(answers: Mapping[str, Any]) -> dict[Of, list[Row]]:
    """The rows of the tasks of all stages that the History Server was asked about."""
    found: dict[Of, list[Row]] = {}
    for question, answer in answers.items():
        if question.endswith(_DETAILS) and answer["tasks"]:
            prefix, _, stage = question.removesuffix(_DETAILS).partition("/stages/")
            number, attempt = map(int, stage.split("/"))
            rows = sorted(answer["tasks"].values(), key=lambda row: row["taskId"])
            found[prefix.removeprefix("applications/"), StageAttempt(number, attempt)] = [_shown(row) for row in rows]
    return found


def own(tasks: list[Task]) -> list[Row]:
    """The rows of tasks as kvwal has them."""
    return [_own(task) for task in tasks]


def _shown(row: dict[str, Any]) -> Row:
    """What Spark's page of a stage shows of a task, as kvwal names it."""
    metrics = row.get("taskMetrics", {})
    read, write = metrics.get("shuffleReadMetrics", {}), metrics.get("shuffleWriteMetrics", {})
    data, output = metrics.get("inputMetrics", {}), metrics.get("outputMetrics", {})
    return (
        row["taskId"], row["index"], row["attempt"], row["partitionId"], row["executorId"], row["host"], row["speculative"],
        STATUS[row["status"]], row["duration"], metrics.get("executorRunTime", 0), metrics.get("jvmGcTime", 0),
        data.get("bytesRead", 0), data.get("recordsRead", 0), output.get("bytesWritten", 0), output.get("recordsWritten", 0),
        read.get("remoteBytesRead", 0) + read.get("localBytesRead", 0), read.get("recordsRead", 0),
        write.get("bytesWritten", 0), write.get("recordsWritten", 0),
        metrics.get("memoryBytesSpilled", 0), metrics.get("diskBytesSpilled", 0), metrics.get("peakExecutionMemory", 0),
        "errorMessage" in row,
    )  # fmt: skip


def _own(task: Task) -> Row:
    return (
        task.task, task.index, task.attempt, task.partition, task.executor, task.host, task.speculative, task.status,
        task.duration_ms, task.run_ms, task.gc_ms, task.input_bytes, task.input_rows, task.output_bytes, task.output_rows,
        task.shuffle_read_bytes, task.shuffle_read_rows, task.shuffle_write_bytes, task.shuffle_write_rows,
        task.spill_memory_bytes, task.spill_disk_bytes, task.peak_memory_bytes, bool(task.message),
    )  # fmt: skip
