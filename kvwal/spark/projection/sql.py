"""Events of SQL executions, applied to the records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from kvwal.spark import records as rec
from kvwal.spark.events import sql as events
from kvwal.spark.projection import plans, stopped
from kvwal.spark.projection.state import Handler, ProjectionState, set_end
from kvwal.spark.record_keys import sql_key
from kvwal.spark.records import cut

_BATCH = re.compile(
    r"(?P<name>.*)\nid = (?P<stream>[0-9a-f-]{36})\nrunId = [0-9a-f-]{36}\nbatch = (?P<batch>[0-9]{1,18})", re.DOTALL
)


def set_metrics(state: ProjectionState, execution: int, totals: Mapping[int, int]) -> None:
    """Set metrics of an execution's plan, by accumulator id, to their totals. An id that the plan lacks is ignored."""
    sql = state.sql(execution)
    if sql is not None and plans.set_metrics(sql, totals):
        state.touch_sql(execution)


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
    # A metric may come several times in one event, once for each partition: its total is their sum.
    totals: Counter[int] = Counter()
    for accumulator, value in event.accum_updates:
        totals[accumulator] += value
    set_metrics(state, event.execution_id, totals)


def _end(state: ProjectionState, event: events.SqlEnd) -> None:
    if event.execution_id in state.position.running_sql:
        state.position.running_sql.remove(event.execution_id)
    sql = state.sql(event.execution_id)
    if sql is None or sql.status != "RUNNING":
        return
    sql.status = "FAILED" if event.error_message else "SUCCEEDED"
    sql.error = rec.Error(cut(event.error_message, rec.MAX_MESSAGE)) if event.error_message else None
    set_end(sql, event.time)
    if sql.batch and not sql.error:
        plans.total_accesses(sql)
        sql.plan, sql.metrics = "", []
    state.touch_sql(sql.id)
    state.app_seen_at(event.time).sql_failed += sql.status == "FAILED"
    if sql.stream and sql.error:
        stopped.note_error(state, sql)


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
