"""Tasks of Spark's REST API, from the kept log alone: records have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvwal.console.sparkapi.applications import recorded
from kvwal.console.sparkapi.known import nothing_kept
from kvwal.console.sparkapi.parameters import first, integer, not_found, quantiles, words_of_tasks
from kvwal.console.sparkapi.serving import Asked, Rows
from kvwal.console.sparkevents.metrics import task_metrics
from kvwal.console.sparkevents.moments import moment_text
from kvwal.console.sparkstate.rows import TaskRow
from kvwal.console.sparkstate.summaries import task_distributions
from kvwal.spark.record_reader import under
from kvwal.spark.records import Executor

TASK_STATUSES = ("RUNNING", "KILLED", "FAILED", "SUCCESS", "UNKNOWN")
_QUANTILES = "0.05,0.25,0.5,0.75,0.95"
_LENGTH = 20
_SORTINGS = {
    "ID": (False, False),
    "INCREASING_RUNTIME": (True, False),
    "RUNTIME": (True, False),
    "+RUNTIME": (True, False),
    "DECREASING_RUNTIME": (True, True),
    "-RUNTIME": (True, True),
}
"""Whether tasks are sorted by the time that they ran, and whether the order is turned round."""


def task_summary(asked: Asked) -> dict[str, Any]:
    """GET stages/<stage>/<attempt>/taskSummary."""
    shares = quantiles(asked.given, _QUANTILES)
    stage, attempt = int(asked.path["stage"]), int(asked.path["stage_attempt"])
    found = task_distributions(_tasks(asked), shares)
    if found is None:
        raise not_found(f"No tasks reported metrics for {stage} / {attempt} yet.")
    return found


def list_tasks(asked: Asked) -> Rows:
    """GET stages/<stage>/<attempt>/taskList."""
    given = asked.given
    offset, length = integer(given, "offset", 0), integer(given, "length", _LENGTH)
    statuses = words_of_tasks(given, "status", TASK_STATUSES)
    order = first(given, "sortBy") or "ID"
    sorting = _SORTINGS.get(order.upper())
    if sorting is None:
        raise not_found(f"sortBy is none of ID, runtime, -runtime: {order}")
    by_runtime, reverse = sorting
    tasks = _tasks(asked)
    if by_runtime:
        tasks = sorted(tasks, key=lambda task: (_sorted_runtime(task), task.task_id), reverse=reverse)
    chosen = [task for task in tasks if not statuses or task.status in statuses]
    chosen = chosen[max(0, offset) :][: max(0, length)]
    return Rows(shown_tasks(asked, chosen))


def _tasks(asked: Asked) -> Sequence[TaskRow]:
    prefix, _ = recorded(asked)
    tasks = asked.states.tasks_of(asked.view, prefix, int(asked.path["stage"]), int(asked.path["stage_attempt"]))
    if tasks is None:
        raise nothing_kept(asked, "The list of tasks")
    return tasks


def _sorted_runtime(task: TaskRow) -> int:
    """The time that a task ran, as Spark sorts by it: tasks that did not succeed come first, the longest of them before."""
    if task.metrics is None:
        return -1
    return task.metrics[2] if task.status == "SUCCESS" else -task.metrics[2] - 1


def shown_tasks(asked: Asked, tasks: Sequence[TaskRow]) -> list[dict[str, Any]]:
    """The rows of tasks as Spark shows them, with the logs of their executors, which records have."""
    prefix, _ = recorded(asked)
    executors = [stored.of(Executor) for stored in under(asked.view.records, f"{prefix}/executor/")]
    logs = {executor.id: executor.logs for executor in executors}
    return [_shown(task, logs.get(task.executor_id, {})) for task in tasks]


def _shown(task: TaskRow, logs: dict[str, str]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "taskId": task.task_id, "index": task.index, "attempt": task.attempt, "partitionId": task.partition_id,
        "launchTime": moment_text(task.launched),
    }  # fmt: skip
    if task.result_fetch_start > 0:
        told["resultFetchStart"] = moment_text(task.result_fetch_start)
    if task.duration > 0:
        told["duration"] = task.duration
    told |= {
        "executorId": task.executor_id, "host": task.host, "status": task.status, "taskLocality": task.task_locality,
        "speculative": task.speculative, "accumulatorUpdates": task.accumulator_updates,
    }  # fmt: skip
    if task.error_message is not None:
        told["errorMessage"] = task.error_message
    if task.metrics is not None:
        told["taskMetrics"] = task_metrics(task.metrics)
    delay = task.scheduler_delay if task.status in ("FAILED", "KILLED", "SUCCESS") else 0
    return told | {"executorLogs": logs, "schedulerDelay": delay, "gettingResultTime": task.getting_result_time}
