"""The answers of Spark's REST API about an application that runs, and the values in which records differ from them.

`tests.support.rest_fields` says which field is compared with what.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from kvwal.spark import records as rec
from kvwal.spark.projection.task_statistics import MAX_REASON
from kvwal.spark.record_keys import job_key, sql_key, stage_key
from tests.support import rest_fields as rest
from tests.support.polling import until
from tests.support.spark import drain

ANSWERS = {
    "app": "",
    "jobs": "/jobs",
    "stages": "/stages?withSummaries=true&quantiles=0.25,0.5,0.75,0.95",
    "executors": "/allexecutors",
    "sql": "/sql?details=true&planDescription=true&length=10000",
    "environment": "/environment",
}
"""The questions, each with the name of the file that has its answer."""
REST_SETTINGS = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.ui.liveUpdate.period": "0",
    # The REST API of a running application counts what heartbeats tell of tasks that are lost. No event log has it.
    "spark.executor.heartbeatInterval": "600s",
    "spark.network.timeout": "1200s",
}
"""Settings of a session that is asked."""
NO_VALUE = ("0", "0 ms", "0.0 B", "")
"""A metric that no task has counted has no event; the REST API of a running application shows it as 0."""

OF_PLAN = ("planDescription", "nodes", "modifiedConfigs")
"""Fields that only the first batch of a stream and those that fail keep."""


def ask(context: SparkContext, path: str) -> bytes:
    """An answer of Spark's REST API about the application."""
    with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}{path}") as response:
        answer: bytes = response.read()
        return answer


def write_answers(spark: SparkSession, folder: Path) -> None:
    """Write the answer to every question into a file of the folder, when no task runs any more."""
    folder.mkdir(exist_ok=True)
    context = spark.sparkContext
    # A task that was killed ends later than its job.
    until(lambda: not any(row["activeTasks"] for row in json.loads(ask(context, "/executors"))) or None)
    drain(spark)
    for answer, path in ANSWERS.items():
        (folder / f"{answer}.json").write_bytes(ask(context, path))


def different_from_spark(records: Mapping[str, Any], app: str, folder: Path) -> list[str]:
    """The values of stored records that are not those of the answers in the folder, a line each: of all jobs, stages and SQL."""
    told = {key: rec.from_value(value) for key, value in records.items()}
    found = []
    for name, table, key in (
        ("jobs", rest.JOB, lambda row: job_key(app, row["jobId"])),
        ("stages", rest.STAGE, lambda row: stage_key(app, row["stageId"], row["attemptId"])),
        ("sql", rest.SQL, lambda row: sql_key(app, row["id"])),
    ):
        answer = json.loads((folder / f"{name}.json").read_text())
        rows = [row for row in answer if row["status"] != "SKIPPED"]
        there = {stored for stored in told if stored.startswith(f"{app}/{name.removesuffix('s')}/")}
        found += [f"{one} is here or there only" for one in sorted({key(row) for row in rows} ^ there)]
        found += value_differences(told, [row for row in rows if key(row) in told], table, key)
    return found


def spark_value(field: str, value: Any) -> Any:
    """A field of the REST API in the form of a record."""
    if field.endswith("Time") and isinstance(value, str):
        return rest.moment(value)
    if field == "executorCpuTime":
        return pytest.approx(value / 1e6, abs=0.01)
    if field in ("stageIds", "jobTags", "successJobIds", "failedJobIds"):
        return sorted(value)
    if field == "accumulatorUpdates":  # Python's own have no name
        return sorted((item for item in value if item.get("name")), key=lambda item: item["id"])
    if field == "nodes":
        return counted(rest.rest_metrics(value))
    if field == "description":
        return value.partition("\nid = ")[0]  # a batch of a stream has the name of its query
    if field == "killedTasksSummary":
        return {rec.cut(reason, MAX_REASON): number for reason, number in value.items()}
    if field in ("errorMessage", "failureReason"):
        return rec.cut(value, rec.MAX_MESSAGE) or None
    return rec.cut(value, rec.MAX_PLAN) if field == "planDescription" else value


def counted(metrics: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Metrics with a value, without averages."""
    return {
        metric
        for metric in metrics
        if metric[2] not in NO_VALUE and not metric[2].startswith("(") and "avg" not in metric[1]
    }


def value_differences(
    told: rest.Told, rows: list[Any], table: dict[str, rest.Field], key: Callable[[Any], str], *, absent: Any = None
) -> list[str]:
    """The values that differ, a line each. All rows have a record, and no field is unknown."""
    found = []
    for row in rows:
        record = told[key(row)]
        assert row.keys() <= table.keys(), row.keys() - table.keys()
        for field, value_of in table.items():
            if isinstance(value_of, str) or (field in OF_PLAN and not record.plan):
                continue
            theirs, ours = spark_value(field, row[field]) if field in row else absent, value_of(told, record)
            if field == "nodes":
                ours = counted(ours)
            if theirs != ours and not (field not in row and not ours):
                found.append(f"{key(row)} {field}: {theirs!r} in Spark, {ours!r} recorded")
    return found
