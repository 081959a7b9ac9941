"""Events of SQL executions, applied to the records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from kvwal.spark import records as rec
from kvwal.spark.events import sql as events
from kvwal.spark.events.jobs import StageInfo
from kvwal.spark.events.tasks import TaskEnd
from kvwal.spark.projection import plans, stopped, task_statistics
from kvwal.spark.projection.state import Handler, ProjectionState, StageTally, set_end
from kvwal.spark.projection.task_statistics import measured
from kvwal.spark.record_keys import sql_key, stage_key
from kvwal.spark.records import cut

MAX_SETTINGS = 100
_BATCH = re.compile(
    r"(?P<name>.*)\nid = (?P<stream>[0-9a-f-]{36})\nrunId = [0-9a-f-]{36}\nbatch = (?P<batch>[0-9]{1,18})", re.DOTALL
)


def add_metrics(state: ProjectionState, stage: rec.Stage, task: TaskEnd) -> None:
    """Count the metrics of a task that the plans of its executions have. `record_metrics` puts them into the records."""
    key = (stage.id, stage.attempt)
    tally = state.metrics_of_tasks.get(key)
    if tally is None:
        floors = {number: floor for sql in _executions_of(state, stage) for number, floor in plans.floors(sql).items()}
        tally = state.metrics_of_tasks[key] = StageTally(floors, {})
    if tally.floors:
        task_statistics.add_metrics(stage, task, *tally)


def count_metrics(state: ProjectionState) -> None:
    """Add the metrics of tasks to the totals of their stages.

    The plans are looked up anew for the next task: an event that is no task may change them.
    """
    tallies, state.metrics_of_tasks = state.metrics_of_tasks, {}
    for (number, attempt), tally in tallies.items():
        stage = state.edit_stage(number, attempt) if tally.totals else None
        if stage is not None and stage.sql_metrics is not None:
            _add_to_executions(state, stage, tally.totals)
            totals = stage.sql_metrics.totals
            for metric, value in tally.totals.items():
                totals[str(metric)] = totals.get(str(metric), 0) + value


def record_metrics(state: ProjectionState) -> None:
    """Put the metrics of tasks into the records of their executions."""
    count_metrics(state)
    waiting, state.metrics_of_stages = state.metrics_of_stages, {}
    for execution, changes in waiting.items():
        sql = state.sql(execution)
        if sql is not None and plans.add_to_metrics(sql, changes):
            state.touch_sql(execution)


def replace_stage(state: ProjectionState, number: int, attempt: int) -> None:
    """Take back what the tasks of a stage's attempt have counted, now that a later attempt begins: Spark's pages do so."""
    key = stage_key(state.prefix, number, attempt)
    stage = state.cache.fetch(key, rec.Stage)
    if stage is not None and _executions_of(state, stage):
        counted = stage.sql_metrics.totals if stage.sql_metrics is not None else {}
        _add_to_executions(state, stage, {int(metric): -value for metric, value in counted.items()})
        stage.sql_metrics = rec.StageMetrics(is_replaced=True)
        state.cache.touch(key)
        record_metrics(state)


def end_stage(state: ProjectionState, stage: rec.Stage, info: StageInfo) -> None:
    """Set the metrics that no task of an ended stage has named to the totals of the stage: the ends of its tasks are missing."""
    metrics = stage.sql_metrics or rec.StageMetrics()
    metrics.unsuccessful = {}
    if metrics.is_replaced:
        return
    missing = [item for item in info.accumulables if str(item.id) not in metrics.totals]
    for sql in _executions_of(state, stage) if missing else ():
        _set_metrics(state, sql, measured(missing, plans.floors(sql)))


def _executions_of(state: ProjectionState, stage: rec.Stage) -> list[rec.Sql]:
    """The SQL executions whose jobs needed a stage while it ran, each once."""
    numbers = dict.fromkeys(job.sql for job in map(state.job, stage.jobs) if job is not None and job.sql is not None)
    return [sql for sql in map(state.sql, numbers) if sql is not None]


def _add_to_executions(state: ProjectionState, stage: rec.Stage, changes: Mapping[int, int]) -> None:
    for sql in _executions_of(state, stage):
        known = {metric.id for metric in sql.metrics}
        state.add_metrics(sql.id, {metric: value for metric, value in changes.items() if metric in known})


def _set_metrics(state: ProjectionState, sql: rec.Sql, totals: Mapping[int, int]) -> None:
    """Set metrics of an execution's plan, by accumulator id, to their totals. An id that the plan lacks is ignored."""
    if plans.set_metrics(sql, totals):
        state.touch_sql(sql.id)


def title(description: str) -> str:
    """The description to record. For a batch of a streaming query it is the query's name: all batches get the same title."""
    batch = _BATCH.fullmatch(description)
    return cut(batch["name"] if batch else description)


def _start(state: ProjectionState, event: events.SqlStart) -> None:
    known = state.sql(event.execution_id)
    if known is not None:
        # A reader of another log of the application has recorded its start, and perhaps not its end.
        if known.status == "RUNNING" and known.id not in state.position.running_sql:
            state.position.running_sql.append(known.id)
        return
    sql = _new_sql(event)
    if sql.batch is not None and not state.begins_in_batch(sql.stream, sql.batch, execution=sql.id):
        return
    state.cache.add(sql_key(state.prefix, event.execution_id), sql)
    _set_plan(state, sql, event)
    told = state.redaction.settings(event.modified_configs, MAX_SETTINGS)
    sql.settings = {name: cut(value) for name, value in told.items()}
    state.position.running_sql.append(sql.id)
    state.app_seen_at(event.time).sql += 1


def _set_plan(state: ProjectionState, sql: rec.Sql, event: events.SqlStart | events.SqlPlanUpdate) -> None:
    plans.set_plan(sql, event.spark_plan_info, cut(event.physical_plan_description, rec.MAX_PLAN))
    root = state.sql(sql.root) if sql.root != sql.id else None
    if root is not None and plans.share_table(root, sql):
        state.touch_sql(root.id)


def _plan_update(state: ProjectionState, event: events.SqlPlanUpdate) -> None:
    sql = state.sql(event.execution_id)
    if sql is not None and sql.status == "RUNNING":
        _set_plan(state, sql, event)
        state.touch_sql(sql.id)


def _metrics_added(state: ProjectionState, event: events.SqlMetricsAdded) -> None:
    sql = state.sql(event.execution_id)
    if sql is not None:
        plans.add_metrics(sql, event.sql_plan_metrics)
        state.touch_sql(sql.id)


def _driver_metrics(state: ProjectionState, event: events.SqlDriverMetrics) -> None:
    sql = state.sql(event.execution_id)
    if sql is None:
        return
    # A metric may come several times in one event, once for each partition: its total is their sum.
    floors = plans.floors(sql)
    totals: Counter[int] = Counter()
    for accumulator, value in event.accum_updates:
        totals[accumulator] += value if value >= floors.get(accumulator, 0) else 0
    if any(metric.value is not None and metric.id in totals for metric in sql.metrics):
        totals.update(_counted_by_tasks(state, sql, set(totals)))
    _set_metrics(state, sql, totals)


def _counted_by_tasks(state: ProjectionState, sql: rec.Sql, metrics: set[int]) -> Counter[int]:
    """What the stages of an execution have counted of these metrics, by accumulator id."""
    counted: Counter[int] = Counter()
    for number in dict.fromkeys(stage for job in map(state.job, sql.jobs) if job is not None for stage in job.ran):
        for stage in state.attempts(number):
            for metric, value in stage.sql_metrics.totals.items() if stage.sql_metrics is not None else ():
                if int(metric) in metrics:
                    counted[int(metric)] += value
    return counted


def _end(state: ProjectionState, event: events.SqlEnd) -> None:
    sql = state.sql(event.execution_id)
    if sql is None or sql.status != "RUNNING":
        _note_ended(state, event.execution_id)
        return
    set_end(sql, event.time)
    state.touch_sql(sql.id)
    if event.error_message is None:
        job_ended(state, sql.id)
    else:
        _set_status(state, sql, "FAILED" if event.error_message else "SUCCEEDED", event.error_message)


def job_ended(state: ProjectionState, execution: int) -> None:
    """Set the status of an execution from its jobs, if its end event had no message and none of them runs any more.

    Spark wrote no message before version 3.4, and its own pages take the status from the jobs. The end of a job may come
    after the end of its execution: Spark wakes the thread that waits for the job before it posts the end.
    """
    sql = state.sql(execution)
    if sql is None or sql.status != "RUNNING" or not sql.ended:
        return
    jobs = [job for job in map(state.job, sql.jobs) if job is not None]
    statuses = {job.status for job in jobs}
    if "RUNNING" not in statuses:
        status = next((status for status in ("FAILED", "KILLED") if status in statuses), "SUCCEEDED")
        messages = [job.error.message for job in jobs if job.status == status and job.error is not None]
        _set_status(state, sql, status, messages[-1] if messages else "")


def _set_status(state: ProjectionState, sql: rec.Sql, status: str, message: str) -> None:
    """Set the status of an execution that has ended; its error is empty if it succeeded."""
    _note_ended(state, sql.id)
    sql.status, sql.error = status, rec.Error(cut(message, rec.MAX_MESSAGE)) if message else None
    plans.drop_unused_metrics(sql)
    if sql.batch and not sql.error:
        plans.total_accesses(sql)
        plans.drop_plan(sql)
    state.touch_sql(sql.id)
    state.app_seen_at(sql.ended).sql_failed += status == "FAILED"
    if sql.stream and sql.error:
        stopped.note_error(state, sql)


def _note_ended(state: ProjectionState, execution: int) -> None:
    if execution in state.position.running_sql:
        state.position.running_sql.remove(execution)


HANDLERS: dict[type, Handler] = {
    events.SqlStart: _start,
    events.SqlPlanUpdate: _plan_update,
    events.SqlMetricsAdded: _metrics_added,
    events.SqlDriverMetrics: _driver_metrics,
    events.SqlEnd: _end,
}


def _new_sql(event: events.SqlStart) -> rec.Sql:
    root = event.execution_id if event.root_execution_id is None else event.root_execution_id
    batch = _BATCH.fullmatch(event.description)
    return rec.Sql(
        id=event.execution_id,
        root=root,
        description=title(event.description),
        call_site=cut(event.details.partition("\n")[0]),
        stream=batch["stream"] if batch else "",
        batch=int(batch["batch"]) if batch else None,
        started=event.time,
    )
