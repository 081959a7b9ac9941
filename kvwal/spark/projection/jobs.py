"""Events of jobs, stages and tasks, applied to the records."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from kvwal.spark import records as rec
from kvwal.spark.events import jobs as events
from kvwal.spark.events.tasks import TaskEnd
from kvwal.spark.lineage import rdds
from kvwal.spark.projection import sql, stopped, storage, task_statistics
from kvwal.spark.projection.state import Handler, ProjectionState, set_end
from kvwal.spark.record_keys import job_key
from kvwal.spark.records import cut

MAX_FRAMES = 60
MAX_ACCUMULATORS = 100
MAX_VALUE = 200


def _job_start(state: ProjectionState, event: events.JobStart) -> None:
    known = state.job(event.job_id)
    if known is not None:
        # A reader of another log of the application has recorded its start, and perhaps not its end.
        if known.status == "RUNNING":
            _note_running(state, known)
        return
    job = _new_job(event)
    if job.batch is not None and not state.begins_in_batch(job.stream, job.batch, job=job.id):
        state.pass_over(job)
        return
    state.cache.add(job_key(state.prefix, event.job_id), job)
    _note_running(state, job)
    state.app_seen_at(job.started).jobs += 1
    execution = state.sql(job.sql) if job.sql is not None else None
    if execution is not None:
        execution.jobs.append(job.id)
        state.touch_sql(execution.id)


def _note_running(state: ProjectionState, job: rec.Job) -> None:
    """Note that a job has begun and not ended, once."""
    if job.id not in state.position.running:
        state.position.running.append(job.id)
        for stage in job.stages:
            state.jobs_of_stage.setdefault(stage, []).append(job.id)


def _note_ended(state: ProjectionState, job: int) -> None:
    if job in state.position.running:
        state.position.running.remove(job)
        state.assign_stages()


def _job_end(state: ProjectionState, event: events.JobEnd) -> None:
    if event.job_id in state.position.passed_jobs:
        return
    job = state.edit_job(event.job_id)
    if job.status != "RUNNING":
        _note_ended(state, event.job_id)
        return
    job.id = event.job_id
    job.error = _job_error(event.job_result) if event.job_result.result != "JobSucceeded" else None
    job.status = _end_status([job], job.error)
    job.skipped = [stage for stage in job.stages if stage not in job.ran]
    tasks = _tasks_of_stages(job)
    job.skipped_tasks += sum(tasks.get(stage, 0) for stage in job.skipped)
    set_end(job, event.completion_time)
    app = state.app_seen_at(job.ended)
    app.jobs += not job.started  # the job began before the recorder listened
    app.jobs_failed += job.status == "FAILED"
    _note_ended(state, job.id)
    if job.sql is not None:
        sql.job_ended(state, job.sql)


def _begun_stage(state: ProjectionState, info: events.StageInfo) -> rec.Stage:
    """The stage, marked as changed. The first event of a stage sets its name, its start and its job."""
    stage = state.edit_stage(info.stage_id, info.attempt)
    if stage.started or stage.ended:
        return stage
    stage.id, stage.attempt, stage.name = info.stage_id, info.attempt, cut(info.stage_name)
    stage.started, stage.planned, stage.parents = info.submission_time or 0, info.number_of_tasks, info.parent_ids
    stage.profile = info.profile
    storage.note_rdds(state, stage, info.rdds)
    _add_jobs(state, stage)
    if stage.attempt:
        sql.replace_stage(state, stage.id, stage.attempt - 1)
    state.app_seen_at(stage.started).stages += 1
    return stage


def _add_jobs(state: ProjectionState, stage: rec.Stage) -> None:
    """Add the running jobs that need a stage to its jobs. As in Spark, a stage that several jobs share counts in each."""
    for number in state.jobs_of_stage.get(stage.id, ()):
        if number not in stage.jobs:
            stage.jobs.append(number)
            job = state.edit_job(number)
            if stage.id not in job.ran:
                job.ran.append(stage.id)
                # Its result was there when the job began, and was lost: Spark counts the attempt that it skipped, too.
                job.skipped_tasks += _tasks_of_stages(job).get(stage.id, 0) if stage.attempt else 0
    stage.job = stage.jobs[0] if stage.jobs else stage.job


def _tasks_of_stages(job: rec.Job) -> dict[int, int]:
    """The planned tasks of each stage of a job; empty if an earlier version recorded its start, or none did."""
    return dict(zip(job.stages, job.stage_tasks, strict=False))


def _stage_submitted(state: ProjectionState, event: events.StageSubmitted) -> None:
    if event.stage_info.stage_id not in state.position.passed_stages:
        _begun_stage(state, event.stage_info)


def _stage_completed(state: ProjectionState, event: events.StageCompleted) -> None:
    info = event.stage_info
    if info.stage_id in state.position.passed_stages:
        return
    stage = _begun_stage(state, info)
    if stage.status != "RUNNING":
        return
    _add_jobs(state, stage)
    stage.error = None if info.failure_reason is None else rec.Error(cut(info.failure_reason, rec.MAX_MESSAGE))
    stage.status = _end_status(map(state.job, stage.jobs), stage.error)
    if stage.status == "SUCCEEDED":
        task_statistics.close_histograms(stage)
    set_end(stage, info.completion_time or 0)
    state.app_seen_at(stage.ended).stages_failed += stage.status == "FAILED"
    _set_accumulators(stage, info.accumulables)
    for number in stage.jobs:
        rdds.add_accesses(state.edit_job(number), stage, info)
    sql.end_stage(state, stage, info)


def _set_accumulators(stage: rec.Stage, items: list[events.Accumulable]) -> None:
    """Set the accumulators of the program: neither Spark's own nor those of plans."""
    named = [
        (item.id, item.name, item.value)
        for item in sorted(items, key=attrgetter("id"))
        if item.name and not item.internal and item.metadata != "sql" and not item.name.startswith("internal.")
    ]
    stage.accumulators = [
        rec.Accumulator(number, cut(name, MAX_VALUE), cut(str(value), MAX_VALUE))
        for number, name, value in named[:MAX_ACCUMULATORS]
    ]
    stage.accumulators_left = len(named) - len(stage.accumulators)


def _end_status(jobs: Iterable[rec.Job | None], error: rec.Error | None) -> str:
    """The status at the end of a job, or of a stage of these jobs."""
    if error is None:
        return "SUCCEEDED"
    return "KILLED" if stopped.is_stopped(jobs, error.message) else "FAILED"


def _task_end(state: ProjectionState, event: TaskEnd) -> None:
    if event.stage_id in state.position.passed_stages:
        return
    stage = state.edit_stage(event.stage_id, event.attempt)
    if not task_statistics.first_time(stage, event):
        return
    if not stage.started and not stage.tasks:
        stage.id, stage.attempt = event.stage_id, event.attempt
    _add_jobs(state, stage)
    sql.add_metrics(state, stage, event)
    reason = event.reason.reason
    if reason == "Success":
        task_statistics.add_duration(stage, event)
        task_statistics.add_quantities(stage, event.task_metrics)
    elif reason not in task_statistics.KILLED:
        state.cache.pending += task_statistics.add_failure(stage, event)
    else:
        task_statistics.add_kill(stage, event.reason)
        for number in stage.jobs:
            task_statistics.add_kill(state.edit_job(number), event.reason)
    if event.task_info.speculative:
        task_statistics.add_speculative(stage, reason)
    executor = state.edit_executor(event.task_info.executor_id)
    executor.host = executor.host or event.task_info.host
    app = state.app_seen_at(event.task_info.finish_time)
    for totals in (stage, app):
        task_statistics.add_task(totals, event)
    # Spark counts nothing for an executor that is gone, and its loss may be told before its tasks' ends.
    if not executor.removed:
        task_statistics.add_task(executor, event)
    for number in stage.jobs:
        task_statistics.add_task(state.edit_job(number), event)


HANDLERS: dict[type, Handler] = {
    events.JobStart: _job_start,
    events.JobEnd: _job_end,
    events.StageSubmitted: _stage_submitted,
    events.StageCompleted: _stage_completed,
    TaskEnd: _task_end,
}


def _new_job(event: events.JobStart) -> rec.Job:
    properties = event.properties or events.JobProperties()
    tasks = {stage.stage_id: stage.number_of_tasks for stage in event.stage_infos}
    last = max(event.stage_infos, key=lambda stage: stage.stage_id, default=None)
    return rec.Job(
        id=event.job_id,
        name=cut(properties.call_site or (last.stage_name if last else "")),
        description=sql.title(properties.description),
        group=cut(properties.group),
        tags=sorted(cut(tag) for tag in properties.tags.split(",") if tag),
        pool=cut(properties.pool),
        sql=int(properties.sql) if properties.sql.isdecimal() else None,
        stream=cut(properties.query),
        batch=int(properties.batch) if properties.batch.isdecimal() else None,
        started=event.submission_time,
        planned=sum(stage.number_of_tasks for stage in event.stage_infos if stage.completion_time is None),
        stages=event.stage_ids,
        stage_tasks=[tasks.get(stage, 0) for stage in event.stage_ids],
    )


def _job_error(result: events.JobResult) -> rec.Error:
    exception = result.exception or events.JobException()
    stack = "\n".join(map(str, exception.stack_trace[:MAX_FRAMES]))
    return rec.Error(cut(exception.message or result.result, rec.MAX_MESSAGE), cut(stack, rec.MAX_STACK))
