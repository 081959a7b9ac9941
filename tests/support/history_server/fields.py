"""The fields of the History Server's REST API, and the part of kvwal's records that must equal each.

The tables of `tests.support.rest_fields` are of an application that runs. The differences of one that has ended, and the answers
that only the History Server gives, are here. A field that has a text instead of a function is not compared, for this reason:
docs/spark-metadata.md lists these fields with their reasons, as `tests.support.history_server.page` writes them.
"""

from __future__ import annotations

from kvwal.spark import records as rec
from tests.support import rest_fields as rest
from tests.support.rest_fields import TASK_ROWS, Field, Told

FILE = "of the file of the log, not of the application"
BLOCKS = "of blocks and caches at this moment: an event log has them with `spark.eventLog.logBlockUpdates.enabled` only"
ACTIVE = "tasks that run: those that have ended are recorded"
QUANTILES = "quantiles are recorded of durations, garbage collection, execution memory, bytes and spills"
PROCESSES = "processes of a cluster manager beside the executors: not recorded"

APPLICATION: dict[str, Field] = {
    "id": lambda told, app: app.id,
    "name": lambda told, app: app.name,
    "attemptId": lambda told, app: app.attempt,
    "startTime": lambda told, app: app.started,
    "startTimeEpoch": lambda told, app: app.started,
    "endTime": lambda told, app: app.ended,
    "endTimeEpoch": lambda told, app: app.ended,
    "duration": lambda told, app: app.duration_ms,
    "completed": lambda told, app: app.status != "RUNNING",
    "sparkUser": lambda told, app: app.user,
    "appSparkVersion": lambda told, app: app.spark_version,
    "exitCode": lambda told, app: app.exit_code,
    **dict.fromkeys(("lastUpdated", "lastUpdatedEpoch", "logSourceName", "logSourceFullPath"), FILE),
}
"""Of an application and of its attempt, in one row."""


def _status(running: str, done: str) -> Field:
    """Spark calls failed what the stop of a streaming query cancelled, and in a log without an end all that is left runs."""
    words = {"RUNNING": running, "SUCCEEDED": done, "FAILED": "FAILED", "KILLED": "FAILED"}
    return lambda told, record: words[record.status]


JOB: dict[str, Field] = {**rest.JOB, "status": _status("RUNNING", "SUCCEEDED"), "numActiveTasks": ACTIVE}


def _copies(copies: rec.Speculation) -> dict[str, int]:
    well = copies.tasks - copies.failed - copies.killed
    return {"numCompletedTasks": well, "numFailedTasks": copies.failed, "numKilledTasks": copies.killed}


STAGE: dict[str, Field] = {
    **rest.STAGE,
    "status": _status("ACTIVE", "COMPLETE"),
    "numActiveTasks": ACTIVE,
    "peakExecutorMetrics": lambda told, stage: _peaks(stage.peaks),
    "executorMetricsDistributions": "of the executors of a stage: the greatest value is compared",
    "taskMetricsDistributions": "the durations are compared: `duration` of taskSummary",
    "tasks": TASK_ROWS,
    "executorSummary": "sums by stage and executor: they are recorded by stage, and by executor; who was excluded is compared",
    "speculationSummary": lambda told, stage: _copies(stage.speculation or rec.Speculation()),
}

EXECUTOR: dict[str, Field] = {
    **rest.EXECUTOR,
    **dict.fromkeys(("rddBlocks", "memoryUsed", "diskUsed"), BLOCKS),
    "memoryMetrics": "how much of `maxMemory` is on the heap, and how much is in use",
    "peakMemoryMetrics": lambda told, executor: _peaks(executor.peaks),
    "resources": lambda told, executor: {
        kind: {"name": kind, "addresses": addresses} for kind, addresses in executor.resources.items()
    },
    **dict.fromkeys(("isBlacklisted", "isExcluded"), lambda told, executor: _excluded(told, executor)),
    "hostPort": lambda told, executor: executor.host,
    "isActive": lambda told, executor: not executor.removed,
    "removeTime": lambda told, executor: executor.removed,
    "removeReason": lambda told, executor: executor.reason or None,
}


def _peaks(peaks: dict[str, int]) -> object:
    """Without the setting `spark.eventLog.logStageExecutorMetrics` Spark has those of task ends, which are not recorded."""
    return peaks or rest.UNSAID


def _excluded(told: Told, executor: rec.Executor) -> object:
    """Of the driver Spark says it, or not, by its own version."""
    (app,) = rest.of_kind(told, rec.Application)
    return rest.UNSAID if executor.id == "driver" else executor.excluded or executor.host in app.excluded_hosts


SQL: dict[str, Field] = {**rest.SQL, "status": _status("RUNNING", "COMPLETED")}

ENVIRONMENT: dict[str, Field] = {
    "runtime": lambda told, environment: {
        name: environment.jvm.get(ours, "")
        for name, ours in (
            ("javaVersion", "Java Version"),
            ("javaHome", "Java Home"),
            ("scalaVersion", "Scala Version"),
        )
    },
    "sparkProperties": lambda told, environment: environment.spark,
    "resourceProfiles": lambda told, environment: [
        (profile.id, profile.executor, profile.task) for profile in environment.profiles
    ],
    "systemProperties": lambda told, environment: environment.system,
    "metricsProperties": lambda told, environment: environment.metrics,
    "classpathEntries": lambda told, environment: {
        folder.folder + entry: folder.source for folder in environment.classpath for entry in folder.entries
    },
    "hadoopProperties": "a thousand settings, nearly all of them Hadoop's defaults: those of `spark.hadoop.*` are recorded",
}


def _quantiles(metric: str) -> Field:
    """Four quantiles of a metric. It has none where it is 0 in each task."""
    return lambda told, stage: [
        getattr(getattr(stage.quantiles, metric, None), name, 0) for name in ("p25", "median", "p75", "p95")
    ]


SUMMARY: dict[str, Field] = {
    "quantiles": "the question",
    "duration": lambda told, stage: [stage.task_p25_ms, stage.task_median_ms, stage.task_p75_ms, stage.task_p95_ms],
    "jvmGcTime": _quantiles("gc_ms"),
    "peakExecutionMemory": _quantiles("peak_memory_bytes"),
    "memoryBytesSpilled": _quantiles("spill_memory_bytes"),
    "diskBytesSpilled": _quantiles("spill_disk_bytes"),
    "inputMetrics": _quantiles("input_bytes"),
    "outputMetrics": _quantiles("output_bytes"),
    "shuffleReadMetrics": _quantiles("shuffle_read_bytes"),
    "shuffleWriteMetrics": _quantiles("shuffle_write_bytes"),
    **dict.fromkeys((
        "executorDeserializeTime", "executorDeserializeCpuTime", "executorRunTime", "executorCpuTime", "resultSize",
        "resultSerializationTime", "gettingResultTime", "schedulerDelay",
    ), QUANTILES),
}  # fmt: skip
"""Of the quantiles of a stage's tasks."""

TASK: dict[str, Field] = dict.fromkeys((
    "taskId", "index", "attempt", "partitionId", "launchTime", "resultFetchStart", "duration", "executorId", "host", "status",
    "taskLocality", "speculative", "accumulatorUpdates", "errorMessage", "taskMetrics", "executorLogs", "schedulerDelay",
    "gettingResultTime",
), TASK_ROWS)  # fmt: skip

RDD: dict[str, Field] = {
    "id": lambda told, rdd: rdd.id,
    "name": lambda told, rdd: rdd.name,
    "numPartitions": lambda told, rdd: rdd.partitions,
    "storageLevel": lambda told, rdd: rdd.level,
    **dict.fromkeys(("numCachedPartitions", "memoryUsed", "diskUsed", "dataDistribution", "partitions"), BLOCKS),
}

PROCESS: dict[str, Field] = dict.fromkeys((
    "id", "hostPort", "isActive", "totalCores", "addTime", "removeTime", "processLogs",
), PROCESSES)  # fmt: skip

TABLES = {
    "applications": APPLICATION, "jobs": JOB, "stages": STAGE, "executors": EXECUTOR, "sql": SQL,
    "environment": ENVIRONMENT, "taskSummary": SUMMARY, "taskList": TASK, "storage": RDD, "processes": PROCESS,
}  # fmt: skip
"""The tables by the name of an answer."""
