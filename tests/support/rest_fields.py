"""The fields of Spark's REST API, and the part of kvwal's records that must equal each: for a field without one, the reason.

A function takes `Told`, all records of the application, and the record of the row. A field that a later Spark adds is in no
table, and fails the test until somebody decides what it is.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from kvwal.spark import records as rec

Told = dict[str, Any]
Field = Callable[[Told, Any], Any] | str
"""The value that the record has for the field, or the reason why none is recorded."""


class _Unsaid:
    """Equals every value."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


UNSAID = _Unsaid()
"""Of this row the field says something else: Spark takes the garbage collection of a driver from its heartbeats."""
TASK_ROWS = "of single tasks: not recorded"
BLOCKS = "of blocks or caches at this moment: no event of an event log has it"
HEARTBEATS = "from heartbeats: an event log has it only with a setting (tests/unit/recorded/test_executors.py)"
NOT_RECORDED = "not recorded: nobody has asked for it yet"
SPARKS_PAGES = "for Spark's own pages"


def of_kind(told: Told, kind: type[Any]) -> list[Any]:
    """The records of a kind."""
    return [record for record in told.values() if isinstance(record, kind)]


def moment(text: str | None) -> int:
    """A time of the REST API in Unix milliseconds; 0 if there is none."""
    return (
        0
        if text is None
        else round(datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fGMT").replace(tzinfo=UTC).timestamp() * 1_000)
    )


def _succeeded(record: rec.Totals) -> int:
    return record.tasks - record.failed - record.killed


def _status(done: str, failed: str = "FAILED") -> Callable[[Told, Any], str]:
    """Spark calls failed what the stop of a streaming query cancelled."""
    return lambda told, record: {"SUCCEEDED": done, "FAILED": failed, "KILLED": failed}[record.status]


def _ran(told: Told, job: rec.Job, *statuses: str) -> list[rec.Stage]:
    return [stage for stage in of_kind(told, rec.Stage) if job.id in stage.jobs and stage.status in statuses]


def _ran_later(told: Told, job: rec.Job) -> int:
    """Stages whose result was there at first, and was lost: Spark counts the attempt that it skipped as well."""
    attempts = {(stage.id, stage.attempt) for stage in of_kind(told, rec.Stage)}
    return sum((stage, 0) not in attempts for stage in job.ran)


def _completed(told: Told, job: rec.Job) -> int:
    """Stages whose last attempt that the job saw succeeded."""
    stages = sorted(_ran(told, job, "SUCCEEDED", "FAILED", "KILLED"), key=lambda stage: stage.attempt)
    last = {stage.id: stage.status for stage in stages}
    return list(last.values()).count("SUCCEEDED")


def _jobs(told: Told, sql: rec.Sql, *statuses: str) -> list[int]:
    return sorted(job.id for job in of_kind(told, rec.Job) if job.sql == sql.id and job.status in statuses)


JOB: dict[str, Field] = {
    "jobId": lambda told, job: job.id,
    "name": lambda told, job: job.name,
    "description": lambda told, job: job.description or None,
    "submissionTime": lambda told, job: job.started,
    "completionTime": lambda told, job: job.ended,
    "stageIds": lambda told, job: sorted(job.stages),
    "jobGroup": lambda told, job: job.group or None,
    "jobTags": lambda told, job: job.tags,
    "status": _status("SUCCEEDED"),
    "numTasks": lambda told, job: job.planned,
    "numActiveTasks": lambda told, job: 0,
    "numCompletedTasks": lambda told, job: _succeeded(job),
    "numSkippedTasks": lambda told, job: job.skipped_tasks,
    "numFailedTasks": lambda told, job: job.failed,
    "numKilledTasks": lambda told, job: job.killed,
    "numCompletedIndices": "the completed tasks without those that ran again",
    "numActiveStages": "0, or less after a stage was tried again: Spark's own count goes wrong",
    "numCompletedStages": _completed,
    "numSkippedStages": lambda told, job: len(job.skipped) + _ran_later(told, job),
    "numFailedStages": lambda told, job: len(_ran(told, job, "FAILED", "KILLED")),
    "killedTasksSummary": lambda told, job: job.kill_reasons,
}

STAGE: dict[str, Field] = {
    "status": _status("COMPLETE"),
    "stageId": lambda told, stage: stage.id,
    "attemptId": lambda told, stage: stage.attempt,
    "numTasks": lambda told, stage: stage.planned,
    "numActiveTasks": lambda told, stage: 0,
    "numCompleteTasks": lambda told, stage: _succeeded(stage),
    "numFailedTasks": lambda told, stage: stage.failed,
    "numKilledTasks": lambda told, stage: stage.killed,
    "numCompletedIndices": "the completed tasks without those that ran again",
    "submissionTime": lambda told, stage: stage.started,
    "firstTaskLaunchedTime": TASK_ROWS,
    "completionTime": lambda told, stage: stage.ended,
    "failureReason": lambda told, stage: stage.error.message if stage.error else None,
    "executorDeserializeTime": NOT_RECORDED,
    "executorDeserializeCpuTime": NOT_RECORDED,
    "executorRunTime": lambda told, stage: stage.run_ms,
    "executorCpuTime": lambda told, stage: stage.cpu_ms,
    "resultSize": NOT_RECORDED,
    "jvmGcTime": lambda told, stage: stage.gc_ms,
    "resultSerializationTime": NOT_RECORDED,
    "memoryBytesSpilled": lambda told, stage: stage.spill_memory_bytes,
    "diskBytesSpilled": lambda told, stage: stage.spill_disk_bytes,
    "peakExecutionMemory": "a sum of the tasks' peaks: the greatest is recorded",
    "inputBytes": lambda told, stage: stage.input_bytes,
    "inputRecords": lambda told, stage: stage.input_rows,
    "outputBytes": lambda told, stage: stage.output_bytes,
    "outputRecords": lambda told, stage: stage.output_rows,
    "shuffleFetchWaitTime": lambda told, stage: stage.shuffle_wait_ms,
    "shuffleReadBytes": lambda told, stage: stage.shuffle_read_bytes,
    "shuffleReadRecords": lambda told, stage: stage.shuffle_read_rows,
    "shuffleWriteBytes": lambda told, stage: stage.shuffle_write_bytes,
    "shuffleWriteRecords": lambda told, stage: stage.shuffle_write_rows,
    "shuffleWriteTime": NOT_RECORDED,
    "shuffleRemoteReqsDuration": NOT_RECORDED,
    **dict.fromkeys((
        "shuffleRemoteBlocksFetched", "shuffleLocalBlocksFetched", "shuffleRemoteBytesRead", "shuffleRemoteBytesReadToDisk",
        "shuffleLocalBytesRead",
    ), "a part of shuffleReadBytes, or its count of blocks"),
    **dict.fromkeys((
        "shuffleCorruptMergedBlockChunks", "shuffleMergedFetchFallbackCount", "shuffleMergedRemoteBlocksFetched",
        "shuffleMergedLocalBlocksFetched", "shuffleMergedRemoteChunksFetched", "shuffleMergedLocalChunksFetched",
        "shuffleMergedRemoteBytesRead", "shuffleMergedLocalBytesRead", "shuffleMergedRemoteReqsDuration",
    ), "of the push-based shuffle: not recorded"),
    "name": lambda told, stage: stage.name,
    "description": lambda told, stage: told_job(told, stage).description or None,
    "details": SPARKS_PAGES,
    "schedulingPool": lambda told, stage: told_job(told, stage).pool or "default",
    "rddIds": SPARKS_PAGES,
    "accumulatorUpdates": lambda told, stage: [
        {"id": item.id, "name": item.name, "value": item.value} for item in stage.accumulators
    ],
    "killedTasksSummary": lambda told, stage: stage.kill_reasons,
    "resourceProfileId": lambda told, stage: stage.profile,
    "peakExecutorMetrics": HEARTBEATS,
    "taskMetricsDistributions": "they are compared by a test of their own",
    "executorMetricsDistributions": HEARTBEATS,
    "isShufflePushEnabled": "of the push-based shuffle: not recorded",
    "shuffleMergersCount": "of the push-based shuffle: not recorded",
}  # fmt: skip


def told_job(told: Told, stage: rec.Stage) -> rec.Job:
    """The job that began a stage."""
    return next(job for job in of_kind(told, rec.Job) if job.id == stage.job)


def _gone(told: Told, executor: rec.Executor) -> int:
    """When an executor was removed; 0 for one that went after the application had ended, and so after Spark was asked."""
    (app,) = of_kind(told, rec.Application)
    return executor.removed if executor.removed < app.ended else 0


EXECUTOR: dict[str, Field] = {
    "id": lambda told, executor: executor.id,
    "hostPort": "the host is compared by a test of its own; the port is another one at each start",
    "isActive": lambda told, executor: not _gone(told, executor),
    "rddBlocks": BLOCKS,
    "memoryUsed": BLOCKS,
    "diskUsed": BLOCKS,
    "totalCores": lambda told, executor: executor.cores,
    "maxTasks": "cores divided by the cores of a task",
    "activeTasks": "0, or more for one that was lost with its tasks",
    "failedTasks": lambda told, executor: executor.failed,
    "completedTasks": lambda told, executor: _succeeded(executor),
    "totalTasks": lambda told, executor: executor.tasks,
    "totalDuration": "from launch to end, of all tasks: the time that they ran is recorded",
    "totalGCTime": lambda told, executor: UNSAID if executor.id == "driver" else executor.gc_ms,
    "totalInputBytes": lambda told, executor: executor.input_bytes,
    "totalShuffleRead": lambda told, executor: executor.shuffle_read_bytes,
    "totalShuffleWrite": lambda told, executor: executor.shuffle_write_bytes,
    "maxMemory": lambda told, executor: executor.storage_bytes,
    "addTime": lambda told, executor: executor.added,
    "removeTime": lambda told, executor: _gone(told, executor),
    "removeReason": lambda told, executor: executor.reason if _gone(told, executor) else None,
    "executorLogs": lambda told, executor: executor.logs,
    "memoryMetrics": BLOCKS,
    "peakMemoryMetrics": HEARTBEATS,
    "attributes": lambda told, executor: executor.attributes,
    "resources": lambda told, executor: executor.resources,
    "resourceProfileId": lambda told, executor: executor.profile,
    **dict.fromkeys(("isBlacklisted", "isExcluded"), lambda told, executor: executor.excluded),
    **dict.fromkeys(
        ("blacklistedInStages", "excludedInStages"), "of running stages: those of ended ones are recorded, too"
    ),
}

SQL: dict[str, Field] = {
    "id": lambda told, sql: sql.id,
    "status": _status("COMPLETED"),
    "description": lambda told, sql: sql.description,
    "planDescription": lambda told, sql: sql.plan,
    "submissionTime": lambda told, sql: sql.started,
    "duration": lambda told, sql: sql.duration_ms,
    "runningJobIds": lambda told, sql: [],
    "successJobIds": lambda told, sql: _jobs(told, sql, "SUCCEEDED"),
    "failedJobIds": lambda told, sql: _jobs(told, sql, "FAILED", "KILLED"),
    "nodes": lambda told, sql: plan_metrics(sql),
    "edges": "recorded with the plan's own nodes: Spark's page leaves some out (tests/unit/recorded/test_plan_tree.py)",
    "queryId": "an id of Spark's: the execution's number is recorded",
    "errorMessage": lambda told, sql: sql.error.message if sql.error else None,
    "rootExecutionId": lambda told, sql: sql.root,
    "modifiedConfigs": lambda told, sql: sql.settings,
}

APPLICATION: dict[str, Field] = {
    "startTime": lambda told, app: app.started,
    "startTimeEpoch": lambda told, app: app.started,
    **dict.fromkeys(
        ("endTime", "endTimeEpoch", "lastUpdated", "lastUpdatedEpoch", "duration", "completed"),
        "the application still runs when it is asked: its end is compared with the event log",
    ),
    "sparkUser": lambda told, app: app.user,
    "appSparkVersion": lambda told, app: app.spark_version,
}


def plan_metrics(sql: rec.Sql) -> set[tuple[str, str, str]]:
    """Node, name and value of the metrics, with the values as Spark writes them."""
    return {
        (metric.node.partition(" ")[2], metric.name, _written(metric.type, metric.value))
        for metric in sql.metrics
        if metric.value is not None
    }


def rest_metrics(nodes: Iterable[Any]) -> set[tuple[str, str, str]]:
    """The metrics of the REST API: of a value that has a least and a greatest one, the total."""
    return {
        (node["nodeName"].strip(), metric["name"], re.sub(r"^.*\n", "", metric["value"]).partition(" (")[0])
        for node in nodes
        for metric in node["metrics"]
    }


def _written(kind: str, value: int) -> str:
    """As `SQLMetrics.stringValue` writes it."""
    if kind == "size":
        powers = ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"))
        unit, name = next(((1 << power, name) for power, name in powers if value >= 2 << power), (1, "B"))
        return f"{_rounded(Decimal(value) / unit, '0.1')} {name}"
    if kind in ("timing", "nsTiming"):
        ms = value if kind == "timing" else value // 1_000_000
        if ms < 1_000:
            return f"{ms} ms"
        if ms < 60_000:
            return f"{_rounded(_single(ms / 1_000), '0.1')} s"
        if ms < 3_600_000:
            return f"{_rounded(_single(ms / 60_000), '0.1')} m"
        return f"{_rounded(_single(ms / 3_600_000), '0.01')} h"
    return f"{value:,}"


def _rounded(value: Decimal, digits: str) -> Decimal:
    """As Java rounds it: half up."""
    return value.quantize(Decimal(digits), ROUND_HALF_UP)


def _single(value: float) -> Decimal:
    """A number of single precision, as Spark divides times."""
    return Decimal(struct.unpack("f", struct.pack("f", value))[0])
