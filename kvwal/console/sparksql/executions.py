"""SQL executions: what Spark's own listener makes of their events."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kvwal.console.sparkevents.events import JobStart, StageInfo
from kvwal.console.sparkevents.task_events import TaskInfo, accumulables_of
from kvwal.console.sparksql.events import SqlStart
from kvwal.console.sparksql.hash_order import hash_order
from kvwal.console.sparksql.metric_text import Greatest, metric_text
from kvwal.console.sparksql.plan_graph import PlanGraph, plan_graph
from kvwal.spark.events.sql import PlanMetric, PlanNode, SqlDriverMetrics, SqlEnd, SqlMetricsAdded, SqlPlanUpdate
from kvwal.spark.redaction import REDACTED, is_secret_name, redacted


class Execution(msgspec.Struct):
    """An SQL execution: the status of each of its jobs, its stages, and the text of each metric by its accumulator.

    Jobs and stages stand in the order in which they were added.
    """

    id: int
    root: int = 0
    description: str = ""
    plan: str = ""
    started: int = -1
    ended: int | None = None
    error: str | None = None
    query_id: str | None = None
    settings: dict[str, str] = {}
    jobs: dict[int, str] = {}
    stages: dict[int, None] = {}
    graph: PlanGraph = msgspec.field(default_factory=PlanGraph)
    metric_values: dict[int, str] = {}

    @property
    def status(self) -> str:
        """RUNNING, COMPLETED or FAILED. Before Spark 3.4 an execution has failed if one of its jobs has."""
        if self.error is not None:
            return "FAILED" if self.error else "COMPLETED"
        if self.ended is None:
            return "RUNNING"
        return "FAILED" if "FAILED" in self.jobs.values() else "COMPLETED"


class _Live:
    """An execution whose events are not all told: its metrics by accumulator, and what the driver counted."""

    __slots__ = ("driver", "end_events", "execution", "kinds", "valued")

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.kinds: dict[int, str] = {}
        self.driver: list[tuple[int, int]] = []
        self.end_events = 0
        self.valued = False

    def take_metrics(self, metrics: Iterable[PlanMetric]) -> None:
        """Take metrics of a plan, or those that adaptive execution adds."""
        for metric in metrics:
            self.kinds[metric.accumulator_id] = metric.metric_type


class _StageValues:
    """The metrics of the tasks of one stage attempt: for each accumulator a value of each task, by its index."""

    __slots__ = ("attempt", "done", "greatest", "kinds", "stage", "tasks", "values")

    def __init__(self, stage: int, attempt: int, tasks: int, kinds: dict[int, str]) -> None:
        self.stage, self.attempt, self.tasks, self.kinds = stage, attempt, tasks, kinds
        self.values: dict[int, dict[int, int]] = {}
        self.greatest: dict[int, tuple[int, int]] = {}
        self.done: set[int] = set()

    def take(self, task: TaskInfo, *, well: bool) -> None:
        """Take the metrics of a task that ended. Those of a task that had succeeded before stay."""
        if task.index in self.done:
            return
        for told in accumulables_of(task):
            kind = self.kinds.get(told.id)
            if kind is None or told.update is None:
                continue
            try:
                value = int(told.update)
            except (TypeError, ValueError):
                continue
            self.values.setdefault(told.id, {})[task.index] = value
            if kind != "sum" and (told.id not in self.greatest or value > self.greatest[told.id][0]):
                self.greatest[told.id] = (value, task.task_id)
        if well:
            self.done.add(task.index)


class Executions:
    """All SQL executions of an application, as events come."""

    def __init__(self) -> None:
        self.all: dict[int, Execution] = {}
        self._live: dict[int, _Live] = {}
        self._stages: dict[int, _StageValues] = {}

    def job_started(self, event: JobStart) -> None:
        """A job of an execution: its stages count for the execution from now on."""
        text = event.properties.sql if event.properties is not None else None
        if text is None or not text.isdecimal():
            return
        number = int(text)
        live = self._live.get(number)
        if live is None and number in self.all:  # it has ended, and a job of it begins late
            live = self._live[number] = _Live(self.all[number])
            live.end_events, live.valued = len(live.execution.jobs) + 1, True
        live = live or self._live_execution(number)
        if live.kinds:
            for info in event.stage_infos:
                self._stages[info.stage_id] = _StageValues(info.stage_id, 0, info.number_of_tasks, live.kinds)
        live.execution.jobs[event.job_id] = "RUNNING"
        live.execution.stages.update(dict.fromkeys(event.stage_ids))

    def stage_submitted(self, info: StageInfo) -> None:
        """A stage begins: another attempt at it counts anew."""
        before = self._stages.get(info.stage_id)
        if before is not None and before.attempt != info.attempt:
            self._stages[info.stage_id] = _StageValues(info.stage_id, info.attempt, before.tasks, before.kinds)

    def task_ended(self, stage: int, attempt: int, task: TaskInfo) -> None:
        """A task ended."""
        values = self._stages.get(stage)
        if values is not None and values.attempt == attempt:
            values.take(task, well=task.status == "SUCCESS")

    def job_ended(self, job: int, *, well: bool) -> None:
        """A job ended."""
        for live in [each for each in self._live.values() if job in each.execution.jobs]:
            live.execution.jobs[job] = "SUCCEEDED" if well else "FAILED"
            live.end_events += 1
            self._update(live)

    def started(self, event: SqlStart) -> None:
        """An execution begins."""
        live = self._live_execution(event.execution_id)
        execution = live.execution
        execution.root = event.execution_id if event.root_execution_id is None else event.root_execution_id
        execution.description = redacted(event.description)
        execution.started = event.time
        execution.query_id = event.query_id
        execution.settings = {
            name: REDACTED if is_secret_name(name) else redacted(value)
            for name, value in event.modified_configs.items()
        }
        self._take_plan(live, event.spark_plan_info, event.physical_plan_description)

    def plan_changed(self, event: SqlPlanUpdate) -> None:
        """Adaptive execution replaced the plan. The metrics before stay."""
        self._take_plan(
            self._live_execution(event.execution_id), event.spark_plan_info, event.physical_plan_description
        )

    def metrics_added(self, event: SqlMetricsAdded) -> None:
        """Adaptive execution added metrics."""
        self._live_execution(event.execution_id).take_metrics(event.sql_plan_metrics)

    def driver_counted(self, event: SqlDriverMetrics) -> None:
        """The driver counted."""
        live = self._live.get(event.execution_id)
        if live is not None:
            live.driver += event.accum_updates

    def ended(self, event: SqlEnd) -> None:
        """An execution ends."""
        live = self._live.get(event.execution_id)
        if live is None:
            return
        live.execution.ended = event.time
        live.execution.error = None if event.error_message is None else redacted(event.error_message)
        self._value(live)
        self._forget_stages(live)
        live.end_events += 1
        self._update(live)

    def close(self) -> None:
        """No more events come: executions that have not ended have the values so far."""
        for live in self._live.values():
            self._value(live)

    def _live_execution(self, number: int) -> _Live:
        live = self._live.get(number)
        if live is None:
            execution = self.all[number] = Execution(number, number, settings={}, jobs={}, stages={}, metric_values={})
            live = self._live[number] = _Live(execution)
        return live

    def _take_plan(self, live: _Live, plan: PlanNode, text: str) -> None:
        live.execution.plan = redacted(text)
        live.execution.graph = plan_graph(plan)
        live.take_metrics(metric for node in live.execution.graph.nodes for metric in node.metrics)

    def _update(self, live: _Live) -> None:
        if live.end_events >= len(live.execution.jobs) + 1:
            self._forget_stages(live)
            self._live.pop(live.execution.id, None)

    def _forget_stages(self, ended: _Live) -> None:
        """Drop the values of stages that no other execution needs."""
        needed = set[int]().union(*(each.execution.stages for each in self._live.values() if each is not ended))
        for stage in self._stages.keys() - needed:
            del self._stages[stage]

    def _value(self, live: _Live) -> None:
        """Make the text of each metric from the values of tasks and of the driver."""
        if live.valued:
            return
        live.valued = True
        values: dict[int, list[int]] = {}
        greatest: dict[int, Greatest] = {}
        # In Spark's order: of several tasks that told the greatest value, the text names the first.
        stages = [self._stages[stage] for stage in hash_order(live.execution.stages) if stage in self._stages]
        for stage in stages:
            for number, told in stage.values.items():
                if number in live.kinds:
                    # Tasks that told nothing count as 0, as Spark counts them.
                    values.setdefault(number, []).extend([*told.values(), *([0] * (stage.tasks - len(told)))])
            for number, (value, task) in stage.greatest.items():
                if number in live.kinds and (number not in greatest or value > greatest[number].value):
                    greatest[number] = Greatest(value, stage.stage, stage.attempt, task)
        for number, value in live.driver:
            if number in live.kinds:
                if number in values and number in greatest and value > greatest[number].value:
                    del greatest[number]
                values.setdefault(number, []).append(value)
        live.execution.metric_values = {
            number: metric_text(live.kinds[number], told, greatest.get(number)) for number, told in values.items()
        }
