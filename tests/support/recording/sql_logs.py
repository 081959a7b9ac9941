"""Events of SQL executions whose tasks count metrics, as Spark writes them, and logs with the values that the metrics have."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

UI = "org.apache.spark.sql.execution.ui.SparkListener"
PlanMetric = tuple[str, int, str]
"""A metric of a plan: its name, its number, its type."""
ROWS, BYTES, MS = ("rows", 1, "sum"), ("data size", 2, "size"), ("time", 3, "timing")
STARTED = 1_790_000_000_000
"""The start of an application. A History Server lists none from before 2010."""
TASKS = 5
"""Tasks of each stage."""
REASONS = {
    "ExceptionFailure": {
        "Class Name": "E", "Description": "", "Stack Trace": [], "Full Stack Trace": "", "Accumulator Updates": [],
    },
    "ExecutorLostFailure": {"Executor ID": "1", "Exit Caused By App": True, "Loss Reason": "lost"},
    "TaskKilled": {"Kill Reason": "another try succeeded", "Accumulator Updates": []},
}  # fmt: skip
COUNTS: dict[str, object] = {
    "Executor Deserialize Time": 0, "Executor Deserialize CPU Time": 0, "Executor Run Time": 1, "Executor CPU Time": 0,
    "Peak Execution Memory": 0, "Result Size": 0, "JVM GC Time": 0, "Result Serialization Time": 0, "Memory Bytes Spilled": 0,
    "Disk Bytes Spilled": 0, "Updated Blocks": [],
}  # fmt: skip


def line(name: str, **fields: Any) -> bytes:
    """An event as a line of a log."""
    return json.dumps({"Event": name, **fields}, separators=(",", ":")).encode()


def application(app: str, spark: str = "4.3.0") -> list[bytes]:
    """The first events of an application."""
    started = {"App Name": "a", "App ID": app, "Timestamp": STARTED, "User": "ada"}
    executor = {
        "Host": "h",
        "Total Cores": 2,
        "Log Urls": {},
        "Attributes": {},
        "Resources": {},
        "Resource Profile Id": 0,
    }
    return [
        line("SparkListenerLogStart", **{"Spark Version": spark}),
        line("SparkListenerApplicationStart", **started),
        line("SparkListenerExecutorAdded", **{"Timestamp": 1, "Executor ID": "1", "Executor Info": executor}),
    ]


def _named(metrics: tuple[PlanMetric, ...]) -> list[dict[str, Any]]:
    return [{"name": name, "accumulatorId": number, "metricType": kind} for name, number, kind in metrics]


def _plan(node: str, metrics: tuple[PlanMetric, ...]) -> dict[str, Any]:
    return {"nodeName": node, "simpleString": node, "children": [], "metadata": {}, "metrics": _named(metrics)}


def begun(*metrics: PlanMetric, execution: int = 0) -> bytes:
    """The start of an execution whose plan is one node with these metrics."""
    return line(
        UI + "SQLExecutionStart", executionId=execution, description="q", details="", physicalPlanDescription="x",
        sparkPlanInfo=_plan("Scan", metrics), time=2,
    )  # fmt: skip


def replanned(*metrics: PlanMetric) -> bytes:
    """Adaptive execution replaces the plan."""
    plan = _plan("Final", metrics)
    return line(UI + "SQLAdaptiveExecutionUpdate", executionId=0, physicalPlanDescription="x", sparkPlanInfo=plan)


def announced(*metrics: PlanMetric) -> bytes:
    """Adaptive execution announces the metrics of a subquery."""
    return line(UI + "SQLAdaptiveSQLMetricUpdates", executionId=0, sqlPlanMetrics=_named(metrics))


def driver(*updates: tuple[int, int]) -> bytes:
    """Metrics that the driver counts."""
    return line(UI + "DriverAccumUpdates", executionId=0, accumUpdates=updates)


def ended() -> bytes:
    """The execution ends without an error."""
    return line(UI + "SQLExecutionEnd", executionId=0, time=9, errorMessage="")


def _stage(number: int, attempt: int = 0) -> dict[str, Any]:
    return {
        "Stage ID": number, "Stage Attempt ID": attempt, "Stage Name": "s", "Number of Tasks": TASKS, "RDD Info": [],
        "Parent IDs": [], "Details": "", "Accumulables": [], "Resource Profile Id": 0,
    }  # fmt: skip


def job(number: int = 0, stages: tuple[int, ...] = (0,), execution: int = 0) -> bytes:
    """A job of an execution begins."""
    properties = {"spark.sql.execution.id": str(execution)}
    infos = [_stage(stage) for stage in stages]
    fields = {
        "Job ID": number,
        "Submission Time": 3,
        "Stage Infos": infos,
        "Stage IDs": stages,
        "Properties": properties,
    }
    return line("SparkListenerJobStart", **fields)


def stage(event: str, number: int = 0, attempt: int = 0, total: dict[int, object] | None = None) -> bytes:
    """A stage is `Submitted` or `Completed`, with the totals of its accumulators."""
    items = [{"ID": key, "Name": "a", "Value": value, "Metadata": "sql"} for key, value in (total or {}).items()]
    info = {**_stage(number, attempt), "Submission Time": 4, "Accumulables": items}
    if event == "Completed":
        info |= {"Completion Time": 8}
    return line("SparkListenerStage" + event, **{"Stage Info": info})


def task(
    index: int, updates: dict[int, object], reason: str = "Success", tried: int = 0, number: int = 0, attempt: int = 0
) -> bytes:
    """The end of the try `tried` of a task, in an attempt at a stage, with what it adds to accumulators."""
    items = [
        {
            "ID": key,
            "Name": "a",
            "Update": value,
            "Value": "9",
            "Internal": True,
            "Count Failed Values": True,
            "Metadata": "sql",
        }
        for key, value in updates.items()
    ]
    info = {
        "Task ID": tried * TASKS + index, "Index": index, "Attempt": tried, "Partition ID": index, "Launch Time": 5,
        "Executor ID": "1", "Host": "h", "Locality": "ANY", "Speculative": False, "Getting Result Time": 0, "Finish Time": 6,
        "Failed": reason in ("ExceptionFailure", "ExecutorLostFailure"), "Killed": reason == "TaskKilled",
        "Accumulables": items,
    }  # fmt: skip
    fields = {"Stage ID": number, "Stage Attempt ID": attempt, "Task Type": "ResultTask"}
    end = {"Task End Reason": {"Reason": reason, **REASONS.get(reason, {})}, "Task Info": info, "Task Metrics": COUNTS}
    return line("SparkListenerTaskEnd", **fields, **end)


class SqlLog(NamedTuple):
    """Events of an execution, and the values of the metrics of its plan, by their number."""

    lines: list[bytes]
    values: dict[int, int | None]


_ONE = [begun(ROWS), job()]
_FAILED = [task(0, {1: "7", 2: "9"}, "ExceptionFailure"), task(1, {1: "1"}, "TaskKilled")]
_REPLANNED = [*_ONE, announced(BYTES), replanned(ROWS), task(0, {1: "5", 2: "64"}), replanned(ROWS, BYTES)]

LOGS = {
    "a stage that runs": SqlLog([*_ONE, task(1, {1: "500"})], {1: 500}),
    "a stage that has ended": SqlLog(
        [*_ONE, task(0, {1: "500"}), task(1, {1: "20"}), stage("Completed", total={1: "520"}), ended()], {1: 520}
    ),
    "two stages": SqlLog(
        [
            *_ONE, task(0, {1: "500"}), stage("Completed", total={1: "500"}),
            job(1, (1,)), task(0, {1: "3"}, number=1), stage("Completed", 1, total={1: "503"}), ended(),
        ],
        {1: 503},
    ),
    "nothing measured": SqlLog(
        [
            begun(ROWS, BYTES, MS), job(), task(0, {1: "5", 3: "40"}), task(1, {1: "-2", 2: "-1", 3: "-1"}),
            task(2, {3: "-1"}), stage("Completed", total={1: "3", 2: "-1", 3: "38"}),
        ],
        {1: 3, 2: 0, 3: 40},
    ),
    "nothing measured by the driver": SqlLog([begun(ROWS, BYTES), driver((1, -7), (2, -1))], {1: -7, 2: 0}),
    "failed tries": SqlLog([begun(ROWS, BYTES), job(), *_FAILED], {1: 8, 2: 9}),
    "a success after failed tries": SqlLog(
        [
            begun(ROWS, BYTES), job(), *_FAILED,
            task(0, {1: "8"}, "ExceptionFailure", tried=1), task(0, {1: "100"}, tried=2),
        ],
        {1: 101, 2: 9},
    ),
    "a success after a lost executor": SqlLog(
        [*_ONE, task(0, {}, "ExecutorLostFailure"), task(0, {1: "4"}, tried=1)], {1: 4}
    ),
    "a speculative copy": SqlLog([*_ONE, task(0, {1: "5"}, tried=1), task(0, {1: "6"})], {1: 5}),
    "a success that was lost": SqlLog(
        [*_ONE, task(0, {1: "5"}), task(0, {1: "5"}, "Resubmitted"), task(0, {1: "6"}, tried=1)], {1: 5}
    ),
    "a second attempt": SqlLog(
        [
            *_ONE, stage("Submitted"), task(0, {1: "500"}), task(1, {1: "20"}, "ExceptionFailure"),
            stage("Completed", total={1: "500"}),
            stage("Submitted", attempt=1), task(0, {1: "3"}, attempt=1), task(2, {1: "1000"}),
        ],
        {1: 3},
    ),
    "a plan that lacks a metric for a while": SqlLog([*_REPLANNED, task(1, {2: "6"}), ended()], {1: 5, 2: 70}),
    "a metric of another node": SqlLog(
        [begun(ROWS, BYTES), job(), task(0, {2: "64"}), replanned(ROWS), replanned(BYTES, ROWS), ended()], {1: None, 2: 64}
    ),
    "the driver first": SqlLog([*_ONE, driver((1, 100), (1, 20)), task(0, {1: "5"}), task(1, {1: "6"})], {1: 131}),
    "the driver last": SqlLog([*_ONE, task(0, {1: "5"}), task(1, {1: "6"}), driver((1, 100), (1, 20))], {1: 131}),
}  # fmt: skip
"""By what happens. Spark's History Server shows these values."""
