"""Events about executors that run: they are excluded from work, and the peaks of their memory."""

from __future__ import annotations

import msgspec

from kvwal.spark.events.base import EventStruct, Int, spark_names


class Excluded(EventStruct, rename="camel"):
    """An executor, or every executor of a host, gets no more tasks: of one stage, or of the application if there is none."""

    executor_id: str = ""
    host_id: str = ""
    stage_id: Int | None = None
    stage_attempt_id: Int = 0


class Unexcluded(EventStruct, rename="camel"):
    """An executor, or a host, gets tasks again."""

    executor_id: str = ""
    host_id: str = ""


class MetricsUpdate(EventStruct, rename=spark_names(attempt="Stage Attempt ID", peaks="Executor Metrics")):
    """The greatest values of an executor's metrics since the last heartbeat, while a stage ran; -1: while none did."""

    stage_id: Int = -1
    attempt: Int = -1
    peaks: dict[str, Int] = msgspec.field(default_factory=dict)


class ExecutorMetricsUpdate(EventStruct, rename=spark_names(updates="Executor Metrics Updated")):
    """A heartbeat. Spark writes those of the driver, with the setting `spark.eventLog.logStageExecutorMetrics` only."""

    executor_id: str
    updates: list[MetricsUpdate] = msgspec.field(default_factory=list)


class StageExecutorMetrics(EventStruct, rename=spark_names(attempt="Stage Attempt ID", peaks="Executor Metrics")):
    """The greatest values of an executor's metrics while a stage ran, by Spark's names.

    Spark writes it with the setting `spark.eventLog.logStageExecutorMetrics` only, before the end of the stage.
    """

    executor_id: str
    stage_id: Int
    attempt: Int = 0
    peaks: dict[str, Int] = msgspec.field(default_factory=dict)
