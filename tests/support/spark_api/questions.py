"""Every question of Spark's REST API about applications, as a client asks them that looks at all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.support.spark_api.comparison import Answer

ABOUT_ALL = (
    "version", "applications", "applications?status=completed", "applications?status=running", "applications?status=none",
    "applications?limit=1", "applications?limit=many", "applications?minDate=2016-01-01", "applications?minDate=soon",
    "applications?maxEndDate=2018-01-18T18:38:27.938GMT", "applications/nobody", "applications/nobody/jobs",
    "applications/nobody/1", "applications/nobody/1/jobs",
)  # fmt: skip
_ABOUT_EACH = (
    "jobs", "jobs?status=succeeded", "jobs?status=running&status=failed", "jobs?status=done", "jobs/99999", "jobs/first",
    "executors", "allexecutors", "allmiscellaneousprocess", "environment", "storage/rdd", "storage/rdd/99999", "sql",
    "sql?length=many", "sql?details=false&planDescription=false", "sql?offset=1&length=1", "sql/99999",
    "stages?withSummaries=true", "stages?status=complete&status=skipped", "stages?details=true&taskStatus=failed",
    "stages/99999", "stages/0/99", "stages?withSummaries=true&quantiles=0.0,0.1,1.0", "stages/99999/0/taskSummary",
    "stages/99999/0/taskList", "streaming/statistics", "streaming/batches/1/operations", "executors/driver/threads",
    "executors/one/threads", "elsewhere",
)  # fmt: skip
_ABOUT_STAGES = (
    "", "?details=false", "?details=true&taskStatus=failed", "?withSummaries=true", "/taskSummary",
    "/taskSummary?quantiles=0,0.3,1", "/taskSummary?quantiles=half", "/taskList?length=100000",
    "/taskList?sortBy=-runtime&length=3", "/taskList?sortBy=runtime&offset=1", "/taskList?sortBy=name",
    "/taskList?status=success&length=2", "/taskList?status=done",
)  # fmt: skip
MOST_STAGES = 12
"""Stages of an application that are asked about one by one."""


def every_question(theirs: Callable[[str], Answer]) -> Iterator[str]:
    """Each question, by what the server that `theirs` asks has."""
    yield from ABOUT_ALL
    for row in theirs("applications").body:
        yield f"applications/{row['id']}"
        for attempt in row["attempts"]:
            yield from _about("/".join(filter(None, ("applications", row["id"], attempt.get("attemptId")))), theirs)


def _about(application: str, theirs: Callable[[str], Answer]) -> Iterator[str]:
    yield application
    for part in _ABOUT_EACH:
        yield f"{application}/{part}"
    for row in _rows(theirs, f"{application}/jobs"):
        yield f"{application}/jobs/{row['jobId']}"
    for row in _rows(theirs, f"{application}/storage/rdd"):
        yield f"{application}/storage/rdd/{row['id']}"
    for row in _rows(theirs, f"{application}/sql"):
        yield f"{application}/sql/{row['id']}"
    for row in _rows(theirs, f"{application}/stages")[:MOST_STAGES]:
        stage = f"{application}/stages/{row['stageId']}"
        yield f"{stage}?details=true&withSummaries=true"
        yield from (f"{stage}/{row['attemptId']}{part}" for part in _ABOUT_STAGES)


def _rows(theirs: Callable[[str], Answer], question: str) -> list[Any]:
    body = theirs(question).body
    return body if isinstance(body, list) else []
