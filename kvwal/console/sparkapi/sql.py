"""SQL executions of Spark's REST API: from the kept log, else from records, which have no graph of Spark's."""

from __future__ import annotations

from functools import partial
from typing import Any

from kvwal.console.shared_reader import View
from kvwal.console.sparkapi.applications import recorded
from kvwal.console.sparkapi.known import nothing_kept, state_of
from kvwal.console.sparkapi.parameters import flag, integer, not_found
from kvwal.console.sparkapi.serving import Asked, Rows
from kvwal.console.sparkevents.moments import moment_text
from kvwal.console.sparksql.executions import Execution
from kvwal.console.sparksql.hash_order import hash_order
from kvwal.console.sparksql.plan_graph import GraphNode, PlanGraph
from kvwal.spark.record_reader import RecordReader, under
from kvwal.spark.records import Job, Sql

_STATUS = {"RUNNING": "RUNNING", "SUCCEEDED": "COMPLETED"}


def list_executions(asked: Asked) -> Rows:
    """GET sql: the oldest first."""
    given = asked.given
    offset, length = integer(given, "offset", 0), integer(given, "length", -1)
    details, plan = flag(given, "details", default=True), flag(given, "planDescription", default=True)
    found = list(_executions(asked, details=details).values())
    if length > 0:
        found = found[max(0, offset) :][:length]
    now = _now(asked)
    return Rows(found, partial(_shown_in_list, details=details, plan=plan, now=now))


def one_execution(asked: Asked) -> dict[str, Any]:
    """GET sql/<execution>."""
    given, number = asked.given, int(asked.path["execution"])
    details, plan = flag(given, "details", default=True), flag(given, "planDescription", default=True)
    found = _executions(asked, details=details).get(number)
    if found is None:
        raise not_found(f"unknown query execution id: {number}")
    return _shown(found, details=details, plan=plan, now=_now(asked))


def _now(asked: Asked) -> int:
    """The time of the latest event: what runs has run until then."""
    _, app = recorded(asked)
    return max(app.ended, app.last_event)


def _executions(asked: Asked, *, details: bool) -> dict[int, Execution]:
    state = state_of(asked)
    if state is not None:
        return state.executions
    prefix, _ = recorded(asked)
    found = recorded_executions(asked.view.records, prefix)
    if details and found:
        raise nothing_kept(asked, "The plan graph of SQL executions (details=false leaves it out)")
    return found


def recorded_executions(records: RecordReader, prefix: str) -> dict[int, Execution]:
    """The SQL executions of an application from its records, without graphs."""
    statuses = {job.id: job.status for job in (stored.of(Job) for stored in under(records, f"{prefix}/job/"))}
    found = {}
    for sql in (stored.of(Sql) for stored in under(records, f"{prefix}/sql/")):
        words = {"RUNNING": "RUNNING", "SUCCEEDED": "SUCCEEDED"}
        jobs = {job: words.get(statuses.get(job, "SUCCEEDED"), "FAILED") for job in sql.jobs}
        ended = None if sql.status == "RUNNING" else sql.ended
        error = (
            None
            if ended is None
            else ""
            if sql.status == "SUCCEEDED"
            else sql.error.message
            if sql.error
            else sql.status
        )
        found[sql.id] = Execution(
            sql.id, sql.root, sql.description, sql.plan, sql.started, ended, error, None, sql.settings, jobs, {},
            PlanGraph(), {},
        )  # fmt: skip
    return found


def _shown_in_list(view: View, execution: Execution, *, details: bool, plan: bool, now: int) -> dict[str, Any]:
    return _shown(execution, details=details, plan=plan, now=now)


def _shown(execution: Execution, *, details: bool, plan: bool, now: int) -> dict[str, Any]:
    jobs = [(job, execution.jobs[job]) for job in hash_order(execution.jobs)]
    told: dict[str, Any] = {
        "id": execution.id,
        "status": execution.status,
        "description": execution.description,
        "planDescription": execution.plan if plan else "",
        "submissionTime": moment_text(execution.started),
        "duration": (now if execution.ended is None else execution.ended) - execution.started,
        "runningJobIds": [job for job, status in jobs if status == "RUNNING"],
        "successJobIds": [job for job, status in jobs if status == "SUCCEEDED"],
        "failedJobIds": [job for job, status in jobs if status == "FAILED"],
        "nodes": _nodes(execution) if details else [],
        "edges": execution.graph.edges if details else [],
    }
    if execution.query_id is not None:
        told["queryId"] = execution.query_id
    if execution.error is not None:
        told["errorMessage"] = execution.error
    return told | {"rootExecutionId": execution.root, "modifiedConfigs": execution.settings}


def _nodes(execution: Execution) -> list[dict[str, Any]]:
    """The nodes, the last one first, with the metrics that have a value."""
    nodes = execution.graph.nodes
    return [_node(node, nodes, execution.metric_values) for node in reversed(nodes)]


def _node(node: GraphNode, nodes: list[GraphNode], values: dict[int, str]) -> dict[str, Any]:
    told: dict[str, Any] = {"nodeId": node.id, "nodeName": node.name.strip()}
    codegen = None if node.within is None else nodes[node.within].codegen_id
    if codegen is not None:
        told["wholeStageCodegenId"] = codegen
    metrics = [
        {"name": metric.name.strip(), "value": values[metric.accumulator_id].removeprefix("\n")}
        for metric in node.metrics
        if metric.accumulator_id in values
    ]
    return told | {"metrics": metrics, "desc": node.desc}
