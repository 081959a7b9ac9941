"""Streaming queries: their moments, and what the stop of a query cancels."""

from __future__ import annotations

from typing import Any

import pytest

from kvwal.spark import queries
from kvwal.spark import records as rec
from kvwal.spark.events import jobs as job_events
from kvwal.spark.events.application import ApplicationStart
from kvwal.spark.events.sql import SqlEnd, SqlStart
from kvwal.spark.events.streaming import QueryProgress, StreamProgress, StreamStarted, StreamTerminated
from kvwal.spark.projection.projection import Projection

QUERY, RUN = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
CANCELLED = f"[SPARK_JOB_CANCELLED] Job 0 cancelled Query q [id = {QUERY}, runId = {RUN}] was stopped"
CANCELLED_BEFORE_4 = f"Job 0 cancelled part of cancelled job group {RUN}"
STARTED = StreamStarted(QUERY, RUN, "q", "2026-11-23T06:39:12.319Z")
ENDED = StreamTerminated(QUERY, RUN)


def batch(execution: int, root: int, number: int = 0) -> SqlStart:
    return SqlStart(execution, f"q\nid = {QUERY}\nrunId = {RUN}\nbatch = {number}", time=1, root_execution_id=root)


def job(message: str | None) -> list[Any]:
    """A job of the query, and its stage, which both end with this message."""
    properties = job_events.JobProperties(query=QUERY, group=RUN, batch="0")
    stage = job_events.StageInfo(stage_id=0, submission_time=2, completion_time=3, failure_reason=message)
    exception = None if message is None else job_events.JobException(message)
    result = job_events.JobResult("JobSucceeded" if message is None else "JobFailed", exception)
    return [
        job_events.JobStart(0, 1, stage_ids=[0], properties=properties),
        job_events.StageSubmitted(stage),
        job_events.StageCompleted(stage),
        job_events.JobEnd(0, result, 4),
    ]


def recorded(*told: Any) -> dict[str, Any]:
    """The records after these events, stored after each of them and read again by a reader that goes on; all of it twice."""
    stored: dict[str, Any] = {}
    for event in (ApplicationStart("a", 1, app_id="app"), *told) * 2:
        projection = Projection("app", stored.get)
        projection.apply(event, 1)
        stored |= projection.take()
    assert not [failure for failure in queries.failures(stored) if failure.what.startswith("stream")]
    return {**{key: rec.from_value(value) for key, value in stored.items()}, "failures": queries.failures(stored)}


@pytest.mark.parametrize("message", [CANCELLED, CANCELLED_BEFORE_4])
def test_the_jobs_and_stages_that_a_stop_cancels_were_killed(message: str) -> None:
    found = recorded(STARTED, *job(message), ENDED)
    cancelled, stage = found["app/job/0000000000"], found["app/stage/0000000000/0000"]
    assert (cancelled.status, stage.status, cancelled.error.message) == ("KILLED", "KILLED", message)
    assert (found["app/app"].jobs_failed, found["app/app"].stages_failed, found["failures"]) == (0, 0, [])


def test_a_job_of_a_stream_that_fails_by_itself_has_failed() -> None:
    found = recorded(STARTED, *job("Task 3 failed 4 times"), ENDED)
    assert found["app/job/0000000000"].status == "FAILED"
    assert found["app/app"].jobs_failed == 1


def test_the_executions_of_the_batch_within_which_a_query_is_stopped_were_killed() -> None:
    found = recorded(
        STARTED, batch(1, 1), batch(2, 1), SqlEnd(2, 5, "java.lang.InterruptedException\n\tat a.b"), SqlEnd(1, 5, "USER_ERROR"),
        ENDED,
    )  # fmt: skip
    assert [found[f"app/sql/000000000{number}"].status for number in (1, 2)] == ["KILLED", "KILLED"]
    assert (found["app/app"].sql_failed, found["failures"]) == (0, [])


def test_an_execution_that_the_function_of_a_batch_survived_stays_a_failure() -> None:
    found = recorded(
        STARTED, batch(1, 1), batch(2, 1), SqlEnd(2, 5, "TABLE_NOT_FOUND"), SqlEnd(1, 6, ""),
        batch(3, 3, 1), batch(4, 3, 1), SqlEnd(4, 7, "TABLE_NOT_FOUND"), SqlEnd(3, 8, "java.lang.InterruptedException"), ENDED,
    )  # fmt: skip
    statuses = [found[f"app/sql/000000000{number}"].status for number in (1, 2, 3, 4)]
    assert statuses == ["SUCCEEDED", "FAILED", "KILLED", "FAILED"]
    assert found["app/app"].sql_failed == 2


def test_the_batch_of_a_query_that_fails_has_failed() -> None:
    told = [STARTED, batch(1, 1), SqlEnd(1, 5, "DIVIDE_BY_ZERO"), StreamTerminated(QUERY, RUN, "DIVIDE_BY_ZERO\n at x")]
    stored: dict[str, Any] = {}
    projection = Projection("app", stored.get)
    for event in told:
        projection.apply(event, 1)
    found = {key: rec.from_value(value) for key, value in projection.take().items()}
    stream, sql = found[f"app/stream/{QUERY}"], found["app/sql/0000000001"]
    assert isinstance(stream, rec.Stream)
    assert isinstance(sql, rec.Sql)
    assert (stream.status, stream.broken_sql, sql.status) == ("FAILED", [], "FAILED")


def test_the_moments_of_a_stream_are_unix_milliseconds() -> None:
    progress = QueryProgress(QUERY, RUN, 0, "q", "2026-11-23T06:39:13.000Z")
    found = recorded(STARTED, StreamProgress(progress))
    assert found[f"app/stream/{QUERY}"].started == 1_795_415_952_319
    assert found[f"app/stream/{QUERY}/000000000000"].at == 1_795_415_953_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [("2026-11-23T06:39:12.319Z", 1_795_415_952_319), ("2026-11-23T06:39:12", 1_795_415_952_000), ("", 0), ("soon", 0)],
)
def test_a_stream_of_an_earlier_version_has_its_moments_as_numbers(text: str, moment: int) -> None:
    stream = rec.from_value({"kind": "stream", "id": QUERY, "started": text})
    old = rec.from_value({"kind": "batch", "query": QUERY, "at": text})
    assert isinstance(stream, rec.Stream)
    assert isinstance(old, rec.Batch)
    assert (stream.started, old.at) == (moment, moment)
    assert rec.from_value(rec.to_value(stream)) == stream
