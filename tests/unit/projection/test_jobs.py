"""Jobs, stages and tasks as Spark counts them: tasks that were killed or lost afterwards, and stages that jobs share."""

from __future__ import annotations

from typing import Any

from kvwal.spark import records as rec
from kvwal.spark.events import jobs as events
from kvwal.spark.events.sql import PlanMetric, PlanNode, SqlDriverMetrics, SqlStart
from kvwal.spark.events.tasks import TaskEnd, TaskEndReason, TaskInfo, TaskMetrics
from kvwal.spark.projection.projection import Projection


def begun(*jobs: int, stage: int = 0) -> list[Any]:
    """Jobs that need one stage, which begins after the first of them."""
    info = events.StageInfo(stage_id=stage, stage_name="s", submission_time=2)
    planned = [events.PlannedStage(stage_id=stage, stage_name="s")]
    first, *others = (
        events.JobStart(job_id=job, submission_time=1, stage_ids=[stage], stage_infos=planned) for job in jobs
    )
    return [first, events.StageSubmitted(info), *others]


def task(index: int, reason: str = "Success", attempt: int = 0) -> TaskEnd:
    info = TaskInfo(task_id=index, index=index, attempt=attempt, launch_time=1, finish_time=11, executor_id="1")
    return TaskEnd(
        stage_id=0, reason=TaskEndReason(reason=reason), task_info=info, task_metrics=TaskMetrics(executor_run_time=10)
    )


def recorded(*told: Any) -> dict[str, Any]:
    """The records of an application after these events, each of which is read twice."""
    projection = Projection("app", lambda key: None)
    for _ in range(2):
        for event in told:
            projection.apply(event, 1)
    return {key: rec.from_value(value) for key, value in projection.take().items()}


def test_a_commit_that_was_denied_is_a_task_that_was_killed() -> None:
    found = recorded(*begun(0), task(0), task(1, "TaskCommitDenied"), task(2, "TaskKilled"), task(3, "FetchFailed"))
    for key in ("app/app", "app/job/0000000000", "app/stage/0000000000/0000", "app/executor/000001"):
        assert (found[key].tasks, found[key].killed, found[key].failed, found[key].run_ms) == (4, 2, 1, 40), key


def test_a_task_whose_executor_is_lost_afterwards_succeeded_and_failed() -> None:
    found = recorded(*begun(0), task(0), task(0, "Resubmitted"), task(0, attempt=1))
    stage = found["app/stage/0000000000/0000"]
    assert (stage.tasks, stage.failed, stage.run_ms) == (3, 1, 20)
    assert [failure.message for failure in stage.failures] == ["Resubmitted"]


def test_a_job_has_its_tags_its_pool_and_its_planned_tasks() -> None:
    stages = [events.PlannedStage(stage_id=stage, stage_name="s", number_of_tasks=5) for stage in (0, 1)]
    properties = events.JobProperties(tags="b,a", pool="nightly")
    start = events.JobStart(job_id=0, submission_time=1, stage_ids=[0, 1], stage_infos=stages, properties=properties)
    job = recorded(start)["app/job/0000000000"]
    assert (job.tags, job.pool, job.planned) == (["a", "b"], "nightly", 10)


def test_a_stage_that_two_jobs_share_counts_in_both() -> None:
    found = recorded(*begun(0, 1), task(0), task(1))
    stage = found["app/stage/0000000000/0000"]
    assert (stage.job, stage.jobs, stage.tasks) == (0, [0, 1], 2)
    for job in (found["app/job/0000000000"], found["app/job/0000000001"]):
        assert (job.ran, job.tasks, job.run_ms) == ([0], 2, 20)
    assert found["app/app"].tasks == 2


def test_a_stage_of_an_earlier_version_goes_on_with_its_job() -> None:
    stage = rec.from_value({"kind": "stage", "id": 3, "job": 7})
    assert isinstance(stage, rec.Stage)
    assert stage.jobs == [7]


def test_a_metric_that_the_driver_counts_for_each_partition_is_their_sum() -> None:
    """As adaptive execution does with the size of the partitions that a shuffle reader reads."""
    plan = PlanNode(
        "AQEShuffleRead", metrics=[PlanMetric("partition data size", 5, "size"), PlanMetric("other", 6, "sum")]
    )
    found = recorded(SqlStart(1, spark_plan_info=plan), SqlDriverMetrics(1, [(5, 100), (6, 1), (5, 20), (5, 3)]))
    assert [metric.value for metric in found["app/sql/0000000001"].metrics] == [123, 1]


def test_a_stage_that_an_earlier_job_completed_is_skipped_and_not_planned() -> None:
    stages = [
        events.PlannedStage(stage_id=0, number_of_tasks=5, completion_time=1),
        events.PlannedStage(stage_id=1, number_of_tasks=3),
    ]
    info = events.StageInfo(stage_id=1, submission_time=2, completion_time=3)
    start = events.JobStart(job_id=0, submission_time=1, stage_ids=[0, 1], stage_infos=stages)
    ended = [events.StageCompleted(info), events.JobEnd(0, events.JobResult("JobSucceeded"), 4)]
    job = recorded(start, events.StageSubmitted(info), *ended)["app/job/0000000000"]
    assert (job.planned, job.ran, job.skipped) == (3, [1], [0])
