"""The answers of the History Server's REST API, beside the records that kvwal made of the same event logs.

Each value of an answer for which there is a record is yielded with the value of the record. `tests.support.history_server.fields`
says which value is compared with what. A field that is in no table is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import kvwal
from kvwal.spark import records as rec
from kvwal.spark.index import is_application_key
from kvwal.spark.projection.task_statistics import MAX_REASON
from kvwal.spark.record_keys import app_prefix, executor_key, job_key, rdd_key, sql_key, stage_key
from tests.support import rest_fields as rest
from tests.support.history_server import fields
from tests.support.recording.rest_rows import counted, spark_value
from tests.support.rest_fields import Field, Told

QUARTILES = [0.25, 0.5, 0.75, 0.95]
"""The quantiles of durations that are recorded."""
_APPLICATION = re.compile(r"applications/(?P<app>[^/]+)(?:/(?P<attempt>\d+))?(?:/(?P<part>[a-z].*))?")
_STAGE = re.compile(r"stages/(?P<stage>\d+)/(?P<attempt>\d+)/(?P<part>taskSummary|taskList)")
PAIRS = ("sparkProperties", "systemProperties", "metricsProperties", "classpathEntries")
"""Fields that are lists of names with their values."""
_HIDDEN = "(redacted)"
_KEYS: dict[str, Callable[[str, Any], str]] = {
    "jobs": lambda prefix, row: job_key(prefix, row["jobId"]),
    "stages": lambda prefix, row: stage_key(prefix, row["stageId"], row["attemptId"]),
    "executors": lambda prefix, row: executor_key(prefix, row["id"]),
    "storage": lambda prefix, row: rdd_key(prefix, row["id"]),
    "sql": lambda prefix, row: sql_key(prefix, row["id"]),
}
_NAMES = {"allexecutors": "executors", "allmiscellaneousprocess": "processes"}
_LISTS = ("jobs", "stages", "allexecutors", "sql")
_CHOICE = re.compile("status|Date|limit")
"""Options that ask for some rows only."""
_PARTS = {
    "inputMetrics": "bytesRead", "outputMetrics": "bytesWritten", "shuffleReadMetrics": "readBytes",
    "shuffleWriteMetrics": "writeBytes",
}  # fmt: skip
"""The part of a metric's quantiles that is recorded."""
_DETAILS = ("speculationSummary",)
"""Fields that a list of rows leaves out."""
_FIRST_BATCH_ONLY = ("planDescription", "nodes", "modifiedConfigs")
"""Fields that records keep of the first batch of a stream, and of those that fail."""
_BOUNDS = (MAX_REASON, rec.MAX_TEXT, rec.MAX_MESSAGE)
"""Characters to which texts of records are cut."""
NO_RECORD = ("SKIPPED", "PENDING")
"""Stages that have not begun."""


class Value(NamedTuple):
    """A value of an answer, and the one that the records have."""

    row: str
    field: str
    theirs: Any
    ours: Any


def told_by_app(store: kvwal.Store) -> dict[str, Told]:
    """All records of a store, by application."""
    stored = {key: value for key, value in store.map("spark").items() if is_application_key(key)}
    found: dict[str, Told] = {key.removesuffix("/app"): {} for key, value in stored.items() if value["kind"] == "app"}
    for key, value in stored.items():
        found[next(app for app in found if key.startswith(f"{app}/"))][key] = rec.from_value(value)
    return found


def compare(apps: Mapping[str, Told], question: str, answer: Any, *, whole: bool) -> Iterator[Value]:
    """Each value of an answer that is recorded, with that of the record.

    `whole`: the answer has all rows, and a field that it lacks has no value. An answer of an earlier Spark may only not know it.
    """
    path, _, options = question.partition("?")
    rows = answer if isinstance(answer, list) else [answer]
    every = not _CHOICE.search(options)
    asked = _APPLICATION.fullmatch(path)
    if asked is None or asked["part"] is None:
        for row in rows:
            yield from _application(apps, row, whole)
        if asked is None and every:
            yield Value(path, "its applications", {app for row in rows for app in _prefixes(row)}, set(apps))
        return
    prefix, part = app_prefix(asked["app"], asked["attempt"] or ""), asked["part"]
    told, name = apps[prefix], part.partition("/")[0]
    if of_stage := _STAGE.fullmatch(part):
        stage = stage_key(prefix, int(of_stage["stage"]), int(of_stage["attempt"]))
        yield from (_tasks if of_stage["part"] == "taskList" else _summary)(told, stage, answer)
        return
    name = _NAMES.get(name, name)
    table = fields.TABLES[name]
    if name == "environment":
        yield from _environment(told, f"{prefix}/env", answer, whole)
    elif name in _KEYS:
        there = {_KEYS[name](prefix, row): row for row in rows if row.get("status") not in NO_RECORD}
        for key, row in there.items():
            if name == "executors":
                row = {**row, "totalTasks": row["totalTasks"] - row["activeTasks"]}
            yield from _row(told, key, row, table, whole)
            if name == "stages":
                yield from _within_stage(told, key, row)
        if every and part in _LISTS:
            kind = name.removesuffix("s")
            yield Value(prefix, part, set(there), {key for key in told if key.startswith(f"{prefix}/{kind}/")})
    else:
        for row in rows:
            check_known(row, table)


def check_known(row: Any, table: Mapping[str, Field]) -> None:
    """A field that is in no table is one that a later Spark has added: somebody has to decide what it is."""
    assert row.keys() <= table.keys(), f"in no table of fields: {sorted(row.keys() - table.keys())}"


def _prefixes(row: Any) -> Iterator[str]:
    for attempt in row["attempts"]:
        yield app_prefix(row["id"], attempt.get("attemptId", ""))


def _application(apps: Mapping[str, Told], row: Any, whole: bool) -> Iterator[Value]:
    for prefix, attempt in zip(_prefixes(row), row["attempts"], strict=True):
        flat = {"id": row["id"], "name": row["name"], **attempt}
        yield from _row(apps.get(prefix, {}), f"{prefix}/app", flat, fields.APPLICATION, whole)


def _row(told: Told, key: str, row: Any, table: Mapping[str, Field], whole: bool) -> Iterator[Value]:
    check_known(row, table)
    record = told.get(key)
    if record is None:
        yield Value(key, "", "a row", "no record")
        return
    for field, value_of in table.items():
        if isinstance(value_of, str) or (field in _FIRST_BATCH_ONLY and not record.plan):
            continue
        if field == "errorMessage" and field not in row and row["status"] == "FAILED":
            continue  # Spark before 3.4 writes no error of an execution; the record has that of its jobs
        if field in row or (whole and field not in _DETAILS):
            ours = value_of(told, record)
            theirs = _recorded_form(field, row[field]) if field in row else type(ours)()
            if ours is not rest.UNSAID:
                yield Value(key, field, _bounded(theirs, ours), counted(ours) if field == "nodes" else ours)


def _bounded(theirs: Any, ours: Any) -> Any:
    """Spark's value with its texts cut as those of the record are."""
    if isinstance(theirs, str) and isinstance(ours, str):
        return rec.cut(theirs, len(ours)) if len(ours) in _BOUNDS else theirs
    if isinstance(theirs, dict) and isinstance(ours, dict) and len(theirs) == len(ours):
        return dict(zip(map(_bounded, sorted(theirs), sorted(ours)), map(theirs.get, sorted(theirs)), strict=True))
    return theirs


def _recorded_form(field: str, value: Any) -> Any:
    if field == "hostPort":
        return value.rsplit(":", 1)[0]  # kvwal records the host
    if field in ("peakExecutorMetrics", "peakMemoryMetrics"):
        return {name: peak for name, peak in value.items() if peak}
    if field == "speculationSummary":
        return {name: value[name] for name in ("numCompletedTasks", "numFailedTasks", "numKilledTasks")}
    return max(0, spark_value(field, value)) if field.startswith("endTime") else spark_value(field, value)


def _environment(told: Told, key: str, row: Any, whole: bool) -> Iterator[Value]:
    profiles = [
        (profile["id"], _amounts(profile["executorResources"]), _amounts(profile["taskResources"]))
        for profile in row.get("resourceProfiles", [])
    ]
    pairs = {field: dict(row[field]) for field in PAIRS if field in row}
    for value in _row(told, key, {**row, **pairs, "resourceProfiles": profiles}, fields.ENVIRONMENT, whole):
        if value.field in pairs:
            yield from _settings(value)
        else:
            yield value


def _amounts(resources: Mapping[str, Any]) -> dict[str, Any]:
    return {name: resource["amount"] for name, resource in resources.items()}


def _settings(value: Value) -> Iterator[Value]:
    """Each setting. kvwal hides all that Spark hides, and what has the form of a secret."""
    for name in sorted(value.theirs.keys() | value.ours.keys()):
        theirs, ours = value.theirs.get(name), value.ours.get(name)
        hidden = ours is not None and theirs is not None and _HIDDEN in ours
        yield Value(value.row, f"{value.field} {name}", ours if hidden else theirs and rec.cut(theirs), ours)


def _within_stage(told: Told, key: str, row: Any) -> Iterator[Value]:
    if tasks := row.get("tasks"):
        yield from _tasks(told, key, list(tasks.values()))
    if summary := row.get("taskMetricsDistributions"):
        yield from _summary(told, key, summary)
    if executors := row.get("executorSummary"):
        yield from _exclusions(told, key, executors)


def _exclusions(told: Told, key: str, row: Any) -> Iterator[Value]:
    """The executors that got no more tasks of a stage, by themselves or with their host."""
    stage, prefix = told[key], key.partition("/stage/")[0]
    for name, sums in row.items():
        if "isExcludedForStage" in sums:
            host = told[executor_key(prefix, name)].host
            excluded = name in stage.excluded_executors or host in stage.excluded_hosts
            yield Value(key, f"executor {name} is excluded", sums["isExcludedForStage"], excluded)


def _tasks(told: Told, key: str, rows: list[Any]) -> Iterator[Value]:
    """The sums, the slowest task and the failures of a stage, from the rows of all of its tasks."""
    for row in rows:
        check_known(row, fields.TASK)
    stage = told[key]
    ended = [row for row in rows if row["status"] != "RUNNING"]
    if len(ended) != stage.tasks:
        return  # a part of the rows was asked for
    well = [row["duration"] for row in ended if row["status"] == "SUCCESS"]
    if well:
        yield Value(key, "shortest task", min(well), stage.task_min_ms)
        yield Value(key, "longest task", max(well), stage.task_max_ms)
        (slowest,) = [row for row in ended if row["taskId"] == stage.slowest.task]
        for field, ours in (
            ("duration", stage.slowest.ms), ("index", stage.slowest.index), ("partitionId", stage.slowest.partition),
            ("executorId", stage.slowest.executor), ("host", stage.slowest.host),
        ):  # fmt: skip
            if field in slowest:
                yield Value(key, f"slowest task: {field}", slowest[field], ours)
    delays = [row.get("schedulerDelay") for row in ended]
    if None not in delays:
        yield Value(key, "schedulerDelay of all tasks", sum(delays), stage.scheduler_delay_ms)
    failed = sum(row["status"] == "FAILED" for row in ended)
    yield Value(key, "failed tasks", failed, sum(failure.count for failure in stage.failures))


def _summary(told: Told, key: str, row: Any) -> Iterator[Value]:
    """The quantiles of a stage's tasks. Spark takes durations of failed tasks too, so those of stages with such are left out."""
    check_known(row, fields.SUMMARY)
    stage = told[key]
    for field, value_of in fields.SUMMARY.items():
        if isinstance(value_of, str) or field not in row or (field == "duration" and (stage.failed or stage.killed)):
            continue
        recorded = dict(zip(QUARTILES, value_of(told, stage), strict=True))
        found = row[field][_PARTS[field]] if field in _PARTS else row[field]
        for share, theirs in zip(row["quantiles"], found, strict=True):
            if share in recorded:
                # A bin is as wide, and its value is rounded.
                off = abs(recorded[share] - theirs) > (0.01 if field == "duration" else 0.04) * theirs + 1
                yield Value(key, f"{field} of {share} of the tasks", theirs, recorded[share] if off else theirs)
