"""The state of a projection: the records of one application, and the position in its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

from kvwal.spark import records as rec
from kvwal.spark.projection.record_cache import RecordCache
from kvwal.spark.record_keys import executor_key, job_key, sql_key, stage_key, stream_key
from kvwal.spark.redaction import Redaction

LOGS = ("log", "recorder")
"""The last parts of the keys of an application's positions: one for its event logs, one for a recorder's spool."""
KEPT_BATCHES = 1_000
"""Batches of a streaming query whose records stay, with those of their jobs, stages and SQL executions. Spark's UI keeps 1,000
jobs as well (`spark.ui.retainedJobs`). Without a limit, a stream of a batch a second would fill the store, and the memory of its
driver."""

MOST_PASSED = 200
"""Most job ids, and most stage ids, of dropped batches that a position remembers."""


class StageTally(NamedTuple):
    """The SQL metrics of one stage attempt.

    `floors`: accumulator id to the least value that counts (-1 may mean that a task measured nothing). `totals`: accumulator id
    to sum over the tasks of the attempt.
    """

    floors: dict[int, int]
    totals: dict[int, int]


class ProjectionState:
    """The records of one application, as far as its events were applied.

    `load(key)` gives a stored object or None. `log` is the last part of the position's key: a live recorder and the event
    logs of one application each have a position of their own.
    """

    def __init__(self, prefix: str, load: Callable[[str], Any], *, log: str) -> None:
        self.prefix = prefix
        self.redaction = Redaction()
        """The application's rules once its settings are known; before that, Spark's default rules."""
        self.cache = RecordCache(load)
        self.position_key = f"{prefix}/{log}"
        self.position = self.cache.fetch(self.position_key, rec.EventLogPosition) or rec.EventLogPosition()
        self._share_running()
        self.jobs_of_stage: dict[int, list[int]] = {}
        """The running jobs that need a stage, the first one first."""
        self.assign_stages()
        self.metrics_of_tasks: dict[tuple[int, int], StageTally] = {}
        """SQL metric totals of running stage attempts that are not in a record yet, by stage and attempt."""
        self.metrics_of_stages: dict[int, dict[int, int]] = {}
        """Metric totals of stages that are not yet added to the records of their SQL executions: execution id to accumulator id
        to total."""
        self._adopt_metrics()

    def _share_running(self) -> None:
        """Add to this position the jobs and SQL executions that either reader of the application lists as running and whose
        records still say RUNNING.

        The other log may hold a start event that this log lacks. A job whose record has ended is dropped from the list.
        """
        positions = [self.position]
        for log in LOGS:
            other = self.cache.fetch(f"{self.prefix}/{log}", rec.EventLogPosition)
            positions += [other] if other is not None and other is not self.position else []
        jobs = dict.fromkeys(job for position in positions for job in position.running)
        self.position.running = [number for number in jobs if (job := self.job(number)) and job.status == "RUNNING"]
        executions = dict.fromkeys(sql for position in positions for sql in position.running_sql)
        self.position.running_sql = [
            number for number in executions if (sql := self.sql(number)) and sql.status == "RUNNING"
        ]

    def _adopt_metrics(self) -> None:
        """Take over `sql_metrics` of the positions: the readers that wrote them have ended."""
        for key in dict.fromkeys((self.position_key, *(f"{self.prefix}/{log}" for log in LOGS))):
            position = self.position if key == self.position_key else self.cache.fetch(key, rec.EventLogPosition)
            if position is not None and position.sql_metrics:
                for execution, counted in position.sql_metrics.items():
                    self.add_metrics(int(execution), {int(metric): value for metric, value in counted.items()})
                position.sql_metrics = {}
                self.cache.touch(key)

    def add_metrics(self, execution: int, changes: Mapping[int, int]) -> None:
        """Add to `metrics_of_stages`."""
        waiting = self.metrics_of_stages.setdefault(execution, {})
        for metric, value in changes.items():
            waiting[metric] = waiting.get(metric, 0) + value

    def app(self) -> rec.Application:
        """The application, marked as changed."""
        return self.cache.edit(f"{self.prefix}/app", rec.Application)

    def app_seen_at(self, moment: int) -> rec.Application:
        """The application, marked as changed, with `last_event` not before `moment`."""
        app = self.app()
        app.last_event = max(app.last_event, moment)
        return app

    def job(self, job: int) -> rec.Job | None:
        """A job, or None."""
        return self.cache.fetch(job_key(self.prefix, job), rec.Job)

    def edit_job(self, job: int) -> rec.Job:
        """A job, marked as changed."""
        return self.cache.edit(job_key(self.prefix, job), rec.Job)

    def edit_stage(self, stage: int, attempt: int) -> rec.Stage:
        """One attempt of a stage, marked as changed."""
        return self.cache.edit(stage_key(self.prefix, stage, attempt), rec.Stage)

    def attempts(self, stage: int) -> Iterator[rec.Stage]:
        """The attempts at a stage, from the first one on."""
        for attempt in count():
            record = self.cache.fetch(stage_key(self.prefix, stage, attempt), rec.Stage)
            if record is None:
                return
            yield record

    def edit_executor(self, executor: str) -> rec.Executor:
        """An executor, marked as changed."""
        record = self.cache.edit(executor_key(self.prefix, executor), rec.Executor)
        record.id = executor
        return record

    def sql(self, execution: int) -> rec.Sql | None:
        """An SQL execution, or None. A caller that changes it calls `touch_sql`."""
        return self.cache.fetch(sql_key(self.prefix, execution), rec.Sql)

    def touch_sql(self, execution: int) -> None:
        """Mark an SQL execution as changed."""
        self.cache.touch(sql_key(self.prefix, execution))

    def begins_in_batch(self, query: str, batch: int, *, job: int | None = None, execution: int | None = None) -> bool:
        """Note a job or an SQL execution that begins in a batch of a streaming query.

        False, and nothing is noted, if the batch is so old that its records were dropped: its events come again, from a
        compacted log.
        """
        stream = self.cache.edit(stream_key(self.prefix, query), rec.Stream)
        stream.id = query
        if batch <= last_dropped(stream):
            return False
        stream.running += [] if job is None else [job]
        stream.running_sql += [] if execution is None else [execution]
        return True

    def pass_over(self, job: rec.Job) -> None:
        """Note a job of a batch that was dropped: the events of its stages, which come again with it, do not count again."""
        position = self.position
        position.passed_jobs = [*position.passed_jobs, job.id][-MOST_PASSED:]
        position.passed_stages = [*position.passed_stages, *job.stages][-MOST_PASSED:]

    def assign_stages(self) -> None:
        """Compute `jobs_of_stage` from the running jobs."""
        self.jobs_of_stage.clear()
        for running in self.position.running:
            job = self.job(running)
            for stage in job.stages if job else ():
                self.jobs_of_stage.setdefault(stage, []).append(running)


def last_dropped(stream: rec.Stream) -> int:
    """The last batch of a streaming query whose records are not kept; negative if there is none."""
    return stream.last_batch - KEPT_BATCHES


Handler = Callable[[ProjectionState, Any], None]
"""Applies one event of one type to the state."""


def set_end(record: rec.Application | rec.Job | rec.Stage | rec.Sql, moment: int) -> None:
    """Set the end of a record, and its duration where its start is known."""
    record.ended = moment
    if record.started and moment:
        record.duration_ms = max(0, moment - record.started)
