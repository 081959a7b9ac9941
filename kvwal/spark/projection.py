"""From events to records: the one place that decides what an event changes. No files, no store, no clock.

Every event may come twice and counts once: a job that has begun does not begin again, a task's run is counted by its number
(`tasks.first_time`). So a log may be read again, in part or from a compacted copy, and the records stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from kvwal.spark import events as ev
from kvwal.spark import plans, tasks
from kvwal.spark import records as rec
from kvwal.spark.record_cache import RecordCache
from kvwal.spark.records import cut
from kvwal.spark.redaction import Redaction, applied

MAX_FRAMES = 60
_BATCH = re.compile(
    r"(?P<name>.*)\nid = (?P<stream>[0-9a-f-]{36})\nrunId = [0-9a-f-]{36}\nbatch = (?P<batch>[0-9]{1,18})", re.DOTALL
)


class Projection:
    """The records of one application, as far as its events were applied.

    `load(key)` gives a stored object or None. `log` names the position among the application's keys: a live recorder and the
    event logs of one application have each their own.
    """

    def __init__(self, prefix: str, load: Callable[[str], Any], *, log: str = "log") -> None:
        self.prefix = prefix
        self.redaction = Redaction()
        """The application's rules, once they are known."""
        self._held = RecordCache(load)
        self._position_key = f"{prefix}/{log}"
        self.position = self._held.fetch(self._position_key, rec.Position) or rec.Position()
        self._job_of: dict[int, int] = {}
        self._assign_stages()

    @property
    def pending(self) -> int:
        """Roughly how many bytes `take` would give."""
        return self._held.pending

    def moved(self, roll: int, event: int, lines: int, path: str) -> None:
        """The log was read up to the `event`-th line of file `roll`; `lines` came since the last call."""
        position = self.position
        position.roll, position.event, position.path = roll, event, path
        position.events += lines

    def damaged(self, damage: rec.Damage) -> None:
        """Keep a line aside that could not be read."""
        key = rec.damage_key(self.prefix, damage.roll, damage.event)
        if self._held.fetch(key, rec.Damage) is None:
            self._held.add(key, damage)
            self.position.damaged += 1
            self._app().damaged += 1

    def apply(self, event: ev.Event, size: int) -> None:
        """Change what the event changes. `size` is that of its line."""
        if not isinstance(event, ev.TaskEnd):
            self._held.pending += size
        with applied(self.redaction):
            _APPLY[type(event)](self, event)

    def take(self) -> dict[str, Any]:
        """What changed, and the position, to be stored as one transaction before anything else is applied."""
        self._held.add(self._position_key, self.position)
        return self._held.take()

    def _app(self) -> rec.Application:
        return self._held.edit(f"{self.prefix}/app", rec.Application)

    def _seen_at(self, moment: int) -> rec.Application:
        """The application, which was alive at `moment`."""
        app = self._app()
        app.last_event = max(app.last_event, moment)
        return app

    def _log_start(self, event: ev.LogStart) -> None:
        self._app().spark_version = event.spark_version

    def _application_start(self, event: ev.ApplicationStart) -> None:
        app = self._seen_at(event.timestamp)
        app.id, app.attempt, app.name = event.app_id or "", event.attempt or "", event.app_name
        app.user, app.started = event.user, event.timestamp
        if app.status == "DETACHED":  # a recorder came back
            app.status, app.ended, app.duration_ms = "RUNNING", 0, 0

    def _application_end(self, event: ev.ApplicationEnd) -> None:
        app = self._seen_at(event.timestamp)
        app.exit_code = event.exit_code
        app.status = "FAILED" if event.exit_code or app.error else "SUCCEEDED"
        _end(app, event.timestamp)

    def _detached(self, event: ev.Detached) -> None:
        app = self._app()
        app.dropped = max(app.dropped, event.dropped)
        if event.error:
            app.error = rec.Error(cut(event.error, rec.MAX_MESSAGE), cut(event.stack, rec.MAX_STACK))
            app.status = "FAILED"
        elif app.status == "RUNNING":
            app.status = "KILLED" if event.killed else "DETACHED"
        if not app.ended:
            _end(app, event.timestamp or app.last_event)
        if app.status == "KILLED":
            self._kill()

    def _kill(self) -> None:
        """What was running when the driver was killed will not end any more."""
        for number in self.position.running:
            job = self._held.edit(rec.job_key(self.prefix, number), rec.Job)
            job.status = "KILLED"
            for stage in job.ran:
                self._kill_stage(stage)
        for number in self.position.running_sql:
            self._held.edit(rec.sql_key(self.prefix, number), rec.Sql).status = "KILLED"
        self.position.running.clear()
        self.position.running_sql.clear()
        self._assign_stages()

    def _kill_stage(self, number: int) -> None:
        for attempt in count():
            key = rec.stage_key(self.prefix, number, attempt)
            stage = self._held.fetch(key, rec.Stage)
            if stage is None:
                return
            if stage.status == "RUNNING":
                stage.status = "KILLED"
                self._held.touch(key)

    def _environment(self, event: ev.EnvironmentUpdate) -> None:
        env = self._held.edit(f"{self.prefix}/env", rec.Environment)
        self.redaction = Redaction(event.spark_properties)
        env.jvm, env.spark = (
            {name: cut(value) for name, value in self.redaction.settings(settings).items()}
            for settings in (event.jvm, event.spark_properties)
        )

    def _executor(self, executor: str) -> rec.Executor:
        record = self._held.edit(rec.executor_key(self.prefix, executor), rec.Executor)
        record.id = executor
        return record

    def _executor_added(self, event: ev.ExecutorAdded) -> None:
        record = self._executor(event.executor_id)
        record.added, record.host, record.cores = (
            event.timestamp,
            event.executor_info.host,
            event.executor_info.total_cores,
        )

    def _executor_removed(self, event: ev.ExecutorRemoved) -> None:
        record = self._executor(event.executor_id)
        record.removed, record.reason = event.timestamp, cut(event.reason)
        self._seen_at(event.timestamp)

    def _job(self, job: int) -> rec.Job | None:
        return self._held.fetch(rec.job_key(self.prefix, job), rec.Job)

    def _job_start(self, event: ev.JobStart) -> None:
        if self._job(event.job_id) is not None:
            return
        job = self._held.add(rec.job_key(self.prefix, event.job_id), _new_job(event))
        self.position.running.append(job.id)
        for stage in job.stages:
            self._job_of.setdefault(stage, job.id)
        self._seen_at(job.started).jobs += 1
        sql = self._sql(job.sql) if job.sql is not None else None
        if sql is not None:
            sql.jobs.append(job.id)
            self._held.touch(rec.sql_key(self.prefix, sql.id))

    def _job_end(self, event: ev.JobEnd) -> None:
        job = self._held.edit(rec.job_key(self.prefix, event.job_id), rec.Job)
        if job.status != "RUNNING":
            return
        job.id = event.job_id
        failed = event.job_result.result != "JobSucceeded"
        job.status = "FAILED" if failed else "SUCCEEDED"
        job.error = _job_error(event.job_result) if failed else None
        _end(job, event.completion_time)
        app = self._seen_at(job.ended)
        app.jobs += not job.started  # begun before anyone listened
        app.jobs_failed += failed
        if job.id in self.position.running:
            self.position.running.remove(job.id)
            self._assign_stages()

    def _assign_stages(self) -> None:
        """Which running job each stage works for: of several, the first."""
        self._job_of.clear()
        for running in self.position.running:
            job = self._job(running)
            for stage in job.stages if job else ():
                self._job_of.setdefault(stage, running)

    def _stage(self, info: ev.StageInfo) -> rec.Stage:
        """The stage, begun if it had not."""
        stage = self._held.edit(rec.stage_key(self.prefix, info.stage_id, info.attempt), rec.Stage)
        if stage.started or stage.ended:
            return stage
        stage.id, stage.attempt, stage.name = info.stage_id, info.attempt, cut(info.stage_name)
        stage.started, stage.planned, stage.parents = info.submission_time or 0, info.number_of_tasks, info.parent_ids
        stage.job = self._job_of.get(stage.id, stage.job)
        self._seen_at(stage.started).stages += 1
        if stage.job is not None:
            job = self._held.edit(rec.job_key(self.prefix, stage.job), rec.Job)
            if stage.id not in job.ran:
                job.ran.append(stage.id)
        return stage

    def _stage_submitted(self, event: ev.StageSubmitted) -> None:
        self._stage(event.stage_info)

    def _stage_completed(self, event: ev.StageCompleted) -> None:
        info = event.stage_info
        stage = self._stage(info)
        if stage.status != "RUNNING":
            return
        stage.status = "SUCCEEDED" if info.failure_reason is None else "FAILED"
        stage.error = None if info.failure_reason is None else rec.Error(cut(info.failure_reason, rec.MAX_MESSAGE))
        _end(stage, info.completion_time or 0)
        self._seen_at(stage.ended).stages_failed += stage.status == "FAILED"
        job = self._job(stage.job) if stage.job is not None else None
        if job is not None and job.sql is not None:
            self._count(job.sql, {item.id: int(item.value) for item in info.accumulables if _is_counter(item)})

    def _task_end(self, event: ev.TaskEnd) -> None:
        if event.reason.reason == "Resubmitted":
            return  # its executor was lost after it succeeded: it will run again, as another attempt
        stage = self._held.edit(rec.stage_key(self.prefix, event.stage_id, event.attempt), rec.Stage)
        if not tasks.first_time(stage, event):
            return
        if not stage.started and not stage.tasks:
            stage.id, stage.attempt, stage.job = event.stage_id, event.attempt, self._job_of.get(event.stage_id)
        if event.reason.reason == "Success":
            tasks.add_duration(stage, event)
        elif event.reason.reason != "TaskKilled":
            self._held.pending += tasks.add_failure(stage, event)
        executor = self._executor(event.task_info.executor_id)
        executor.host = executor.host or event.task_info.host
        app = self._seen_at(event.task_info.finish_time)
        for totals in (stage, executor, app):
            tasks.add_task(totals, event)
        if stage.job is not None:
            tasks.add_task(self._held.edit(rec.job_key(self.prefix, stage.job), rec.Job), event)

    def _sql(self, execution: int) -> rec.Sql | None:
        return self._held.fetch(rec.sql_key(self.prefix, execution), rec.Sql)

    def _sql_start(self, event: ev.SqlStart) -> None:
        if self._sql(event.execution_id) is not None:
            return
        sql = self._held.add(rec.sql_key(self.prefix, event.execution_id), _new_sql(event))
        plans.describe(sql, event.spark_plan_info, cut(event.physical_plan_description, rec.MAX_PLAN))
        self.position.running_sql.append(sql.id)
        self._seen_at(event.time).sql += 1

    def _sql_plan(self, event: ev.SqlPlan) -> None:
        sql = self._sql(event.execution_id)
        if sql is not None and sql.status == "RUNNING":
            plans.describe(sql, event.spark_plan_info, cut(event.physical_plan_description, rec.MAX_PLAN))
            self._held.touch(rec.sql_key(self.prefix, sql.id))

    def _sql_metrics(self, event: ev.SqlMetrics) -> None:
        sql = self._sql(event.execution_id)
        if sql is not None:
            plans.add_metrics(sql, event.sql_plan_metrics)
            self._held.touch(rec.sql_key(self.prefix, sql.id))

    def _sql_driver(self, event: ev.SqlDriver) -> None:
        self._count(event.execution_id, dict(event.accum_updates))

    def _count(self, execution: int, values: dict[int, int]) -> None:
        """Bring counters to the plan that has them."""
        sql = self._sql(execution)
        if sql is not None and plans.count(sql, values):
            self._held.touch(rec.sql_key(self.prefix, execution))

    def _sql_end(self, event: ev.SqlEnd) -> None:
        sql = self._sql(event.execution_id)
        if sql is None or sql.status != "RUNNING":
            return
        if sql.id in self.position.running_sql:
            self.position.running_sql.remove(sql.id)
        sql.status = "FAILED" if event.error_message else "SUCCEEDED"
        sql.error = rec.Error(cut(event.error_message, rec.MAX_MESSAGE)) if event.error_message else None
        _end(sql, event.time)
        if sql.batch and not sql.error:
            plans.total_accesses(sql)
            sql.plan, sql.metrics = "", []
        self._held.touch(rec.sql_key(self.prefix, sql.id))
        self._seen_at(event.time).sql_failed += sql.status == "FAILED"

    def _stream(self, query: str) -> rec.Stream:
        stream = self._held.edit(rec.stream_key(self.prefix, query), rec.Stream)
        stream.id = query
        return stream

    def _stream_started(self, event: ev.StreamStarted) -> None:
        stream = self._stream(event.id)
        if stream.run != event.run_id:
            stream.run, stream.name, stream.status, stream.error = event.run_id, cut(event.name), "RUNNING", None
            stream.started = event.timestamp

    def _stream_progress(self, event: ev.StreamProgress) -> None:
        batch = _new_batch(event.progress)
        key = rec.stream_key(self.prefix, batch.query, batch.batch)
        before = self._held.fetch(key, rec.Batch)
        if before is not None and before.run == batch.run and before.at >= batch.at:
            return
        self._held.add(key, batch)
        stream = self._stream(batch.query)
        stream.name = stream.name or batch.name
        stream.batches += before is None
        stream.input_rows += batch.input_rows - (before.input_rows if before else 0)
        stream.last_batch = max(stream.last_batch, batch.batch)
        stream.watermark = batch.watermark or stream.watermark

    def _stream_terminated(self, event: ev.StreamTerminated) -> None:
        stream = self._stream(event.id)
        stream.status = "FAILED" if event.exception else "SUCCEEDED"
        if event.exception:
            message, _, stack = event.exception.partition("\n")
            stream.error = rec.Error(cut(message, rec.MAX_MESSAGE), cut(stack, rec.MAX_STACK))


_APPLY: dict[type, Callable[[Projection, Any], None]] = {
    ev.LogStart: Projection._log_start,
    ev.ApplicationStart: Projection._application_start,
    ev.ApplicationEnd: Projection._application_end,
    ev.Detached: Projection._detached,
    ev.EnvironmentUpdate: Projection._environment,
    ev.ExecutorAdded: Projection._executor_added,
    ev.ExecutorRemoved: Projection._executor_removed,
    ev.JobStart: Projection._job_start,
    ev.JobEnd: Projection._job_end,
    ev.StageSubmitted: Projection._stage_submitted,
    ev.StageCompleted: Projection._stage_completed,
    ev.TaskEnd: Projection._task_end,
    ev.SqlStart: Projection._sql_start,
    ev.SqlPlan: Projection._sql_plan,
    ev.SqlMetrics: Projection._sql_metrics,
    ev.SqlDriver: Projection._sql_driver,
    ev.SqlEnd: Projection._sql_end,
    ev.StreamStarted: Projection._stream_started,
    ev.StreamProgress: Projection._stream_progress,
    ev.StreamTerminated: Projection._stream_terminated,
}


def _end(record: rec.Application | rec.Job | rec.Stage | rec.Sql, moment: int) -> None:
    record.ended = moment
    if record.started and moment:
        record.duration_ms = max(0, moment - record.started)


def _new_job(event: ev.JobStart) -> rec.Job:
    about = event.properties or ev.Properties()
    last = max(event.stage_infos, key=lambda stage: stage.stage_id, default=None)
    return rec.Job(
        id=event.job_id,
        name=cut(about.call_site or (last.stage_name if last else "")),
        description=_title(about.description),
        group=cut(about.group),
        sql=int(about.sql) if about.sql.isdecimal() else None,
        stream=cut(about.query),
        batch=int(about.batch) if about.batch.isdecimal() else None,
        started=event.submission_time,
        stages=event.stage_ids,
    )


def _new_sql(event: ev.SqlStart) -> rec.Sql:
    root = event.execution_id if event.root_execution_id is None else event.root_execution_id
    of_stream = _BATCH.fullmatch(event.description)
    return rec.Sql(
        id=event.execution_id,
        root=root,
        description=_title(event.description),
        call_site=cut(event.details.partition("\n")[0]),
        stream=of_stream["stream"] if of_stream else "",
        batch=int(of_stream["batch"]) if of_stream else None,
        started=event.time,
    )


def _title(description: str) -> str:
    """A description; of a streaming query's batch only the query's name, so that its batches are runs of one thing."""
    of_stream = _BATCH.fullmatch(description)
    return cut(of_stream["name"] if of_stream else description)


def _job_error(result: ev.JobResult) -> rec.Error:
    failure = result.exception or ev.Failure()
    stack = "\n".join(map(str, failure.stack_trace[:MAX_FRAMES]))
    return rec.Error(cut(failure.message or result.result, rec.MAX_MESSAGE), cut(stack, rec.MAX_STACK))


def _is_counter(item: ev.Accumulable) -> bool:
    """Counters of plans come as text, the task metrics' own as numbers or lists."""
    return item.metadata == "sql" and len(value := str(item.value).removeprefix("-")) < 19 and value.isdecimal()


def _new_batch(progress: ev.Progress) -> rec.Batch:
    sources = progress.sources
    return rec.Batch(
        query=progress.id,
        run=progress.run_id,
        name=cut(progress.name),
        batch=progress.batch_id,
        at=progress.timestamp,
        duration_ms=progress.batch_duration,
        steps_ms=progress.duration_ms,
        input_rows=sum(source.num_input_rows for source in sources),
        input_rows_per_second=round(sum(source.input_rows_per_second or 0.0 for source in sources), 3),
        processed_rows_per_second=round(sum(source.processed_rows_per_second or 0.0 for source in sources), 3),
        watermark=progress.event_time.get("watermark", ""),
        event_time_max=progress.event_time.get("max", ""),
        state_rows=sum(operator.num_rows_total for operator in progress.state_operators),
        state_bytes=sum(operator.memory_used_bytes for operator in progress.state_operators),
        late_rows=sum(operator.num_rows_dropped_by_watermark for operator in progress.state_operators),
        sources=[_source(source) for source in sources],
        sink=cut(progress.sink.description),
        output_rows=progress.sink.num_output_rows,
    )


def _source(source: ev.Source) -> dict[str, Any]:
    return {
        "what": cut(source.description),
        "start": _offset(source.start_offset),
        "end": _offset(source.end_offset),
        "latest": _offset(source.latest_offset),
        "rows": source.num_input_rows,
    }


def _offset(offset: Any) -> str:
    """Offsets as JSON text: each source has its own shape, and some hold numbers that JSON elsewhere would bend."""
    if offset is None:
        return ""
    text = offset if isinstance(offset, str) else msgspec.json.encode(offset).decode()
    return cut(text, 20_000)
