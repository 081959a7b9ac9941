"""Two readers of one application, each with a log and a position of its own, one after the other: the records of one alone."""

from __future__ import annotations

from typing import Any

import pytest

from kvwal.spark.events import application as app_events
from kvwal.spark.events import jobs as events
from kvwal.spark.events import streaming
from kvwal.spark.events.sql import SqlEnd, SqlStart
from kvwal.spark.events.tasks import TaskEnd, TaskEndReason, TaskInfo, TaskMetrics
from kvwal.spark.projection import state
from kvwal.spark.projection.projection import Projection

JOBS = 3
QUERY = "11111111-2222-3333-4444-555555555555"


def job(number: int, stages: int = 2, **properties: str) -> list[Any]:
    """The events of a job with its stages, one after the other, of two tasks each, and of its SQL execution."""
    numbers = [number * stages + stage for stage in range(stages)]
    told: list[Any] = [
        SqlStart(execution_id=number, description=f"sql {number}", time=number * 100 + 1),
        events.JobStart(
            job_id=number, submission_time=number * 100 + 2, stage_ids=numbers,
            properties=events.JobProperties(sql=str(number), **properties),
        ),
    ]  # fmt: skip
    for stage in numbers:
        info = events.StageInfo(stage_id=stage, stage_name="s", submission_time=number * 100 + 3, number_of_tasks=2)
        told.append(events.StageSubmitted(info))
        told += [task(stage, index) for index in range(2)]
        told.append(
            events.StageCompleted(
                events.StageInfo(stage_id=stage, stage_name="s", submission_time=3, completion_time=number * 100 + 20)
            )
        )
    result = events.JobResult("JobSucceeded")
    return [
        *told,
        events.JobEnd(job_id=number, completion_time=number * 100 + 30, job_result=result),
        SqlEnd(execution_id=number, time=number * 100 + 40),
    ]


def task(stage: int, index: int) -> TaskEnd:
    info = TaskInfo(task_id=stage * 2 + index, index=index, launch_time=1, finish_time=11, executor_id="1")
    return TaskEnd(
        stage_id=stage, reason=TaskEndReason(reason="Success"), task_info=info, task_metrics=TaskMetrics(executor_run_time=10)
    )  # fmt: skip


class Store:
    """The records of an application, and readers of it that are built from them."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def read(self, log: str, told: list[Any]) -> None:
        projection = Projection("app", self.values.get, log=log)
        for event in told:
            projection.apply(event, 1)
        for key in projection.take_dropped():
            self.values.pop(key, None)
        self.values |= projection.take()

    def records(self) -> dict[str, Any]:
        return {key: value for key, value in self.values.items() if key not in ("app/log", "app/recorder")}


BEGIN = app_events.ApplicationStart(app_name="a", app_id="app", timestamp=1, user="me")
WHOLE = [BEGIN, *(event for number in range(JOBS) for event in job(number))]


@pytest.mark.parametrize("first", ["recorder", "log"])
def test_a_reader_of_another_log_takes_over_at_any_event(first: str) -> None:
    """The second one has read nothing before, so it reads all of its own log."""
    alone = Store()
    alone.read(first, WHOLE)
    for at in range(len(WHOLE)):
        both = Store()
        both.read(first, WHOLE[:at])
        both.read({"recorder": "log", "log": "recorder"}[first], WHOLE)
        assert both.records() == alone.records(), at
        both.read(first, WHOLE[at:])  # and the first one comes back for the rest
        assert both.records() == alone.records(), at
        assert both.values["app/log"]["running"] == both.values["app/recorder"]["running"] == []


def test_a_recorder_that_starts_later_goes_on_with_the_jobs_that_a_follower_saw_begin() -> None:
    """Its own log begins in the middle of a job. The follower reads the rest of the event log after it."""
    alone = Store()
    alone.read("log", WHOLE)
    for at in range(2, len(WHOLE)):
        both = Store()
        both.read("log", WHOLE[:at])
        both.read("recorder", [BEGIN, *WHOLE[at:]])
        assert both.records() == alone.records(), at
        both.read("log", WHOLE[at:])
        assert both.records() == alone.records(), at


def test_a_job_that_ended_for_another_reader_is_not_killed() -> None:
    for at in range(2, len(WHOLE)):
        both = Store()
        both.read("recorder", WHOLE[:at])
        both.read("log", WHOLE)
        both.read("recorder", [app_events.Detached(killed=True)])
        jobs = [value["status"] for key, value in both.values.items() if key.startswith(("app/job/", "app/sql/"))]
        assert jobs == ["SUCCEEDED"] * 2 * JOBS


def test_the_batches_that_a_stream_no_longer_keeps_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "KEPT_BATCHES", 2)
    told: list[Any] = [BEGIN]
    for number in range(8):
        told += job(number, query=QUERY, batch=str(number))
        told.append(
            streaming.StreamProgress(
                streaming.QueryProgress(id=QUERY, run_id="run", batch_id=number, timestamp="2026-01-01T00:00:00.000Z")
            )
        )
    alone, both = Store(), Store()
    alone.read("recorder", told)
    both.read("recorder", told)
    both.read("log", told)
    assert both.records() == alone.records()
    assert alone.values["app/app"]["tasks"] == 8 * 4
