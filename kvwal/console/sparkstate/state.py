"""The state of an application, and the replay of its events that makes it, in the way of Spark's own listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kvwal.console.sparkevents import events as ev
from kvwal.console.sparkevents.metrics import flat
from kvwal.console.sparkevents.moments import moment_text
from kvwal.console.sparkevents.task_events import TaskEnd, TaskStart
from kvwal.console.sparkevents.texts import Texts
from kvwal.console.sparksql.events import SqlStart
from kvwal.console.sparksql.executions import Execution, Executions
from kvwal.console.sparkstate.executor_rows import ExecutorRow, ProcessRow, RddRow
from kvwal.console.sparkstate.executors import LiveExecutor
from kvwal.console.sparkstate.rows import JobRow, StageState
from kvwal.console.sparkstate.stages import DEFAULT_POOL, LiveJob, LiveStage
from kvwal.console.sparkstate.storage import LiveRdd, block_updated, unpersisted
from kvwal.spark.events import application, executors, jobs, lenient, sql

_DRIVERS = ("driver", "<driver>")
"""The driver, and its name in early versions."""
_FALLBACK = "fallback"
"""The block manager of decommissioned executors, which Spark does not list."""


class State(msgspec.Struct):
    """The state of an application after the last event of its log. Rows are in ascending order of their numbers."""

    jobs: dict[int, JobRow]
    stages: dict[tuple[int, int], StageState]
    executors: dict[str, ExecutorRow]
    processes: dict[str, ProcessRow]
    rdds: dict[int, RddRow]
    executions: dict[int, Execution]
    environment: ev.EnvironmentUpdate | None
    profiles: dict[int, ev.ResourceProfileAdded]


class Replay:
    """The replay of a log. `lines` may be called again and again; `state` ends it."""

    def __init__(self) -> None:
        self._jobs: dict[int, LiveJob] = {}
        self._written_jobs: dict[int, LiveJob] = {}
        self._stages: dict[tuple[int, int], LiveStage] = {}
        self._written_stages: dict[tuple[int, int], LiveStage] = {}
        self._tasks: set[int] = set()
        self._executors: dict[str, LiveExecutor] = {}
        self._dead: dict[str, LiveExecutor] = {}
        self._every_executor: dict[str, LiveExecutor] = {}
        self._processes: dict[str, ProcessRow] = {}
        self._rdds: dict[int, LiveRdd] = {}
        self._environment: ev.EnvironmentUpdate | None = None
        self._profiles: dict[int, ev.ResourceProfileAdded] = {}
        self._cpus_per_task = 1
        self._started = 0
        self._ended: int | None = None
        self._texts = Texts()
        self._executions = Executions()
        self._handlers = {name: (msgspec.json.Decoder(kind), kind, handle) for name, kind, handle in self._table()}

    def lines(self, lines: Iterable[bytes]) -> None:
        """Apply lines. A line that cannot be read, and an event that changes nothing here, are passed over."""
        handlers = self._handlers
        for line in lines:
            found = handlers.get(line[10 : line.find(b'"', 10)])
            if found is None:
                continue
            decoder, kind, handle = found
            try:
                event = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                try:
                    event = lenient.convert(lenient.load(line), kind)
                except (ValueError, RecursionError, msgspec.DecodeError):
                    continue
            handle(event)

    def state(self, now: int) -> State:
        """The state, once all lines are applied. `now` is the moment until which what has not ended has lasted."""
        self._executions.close()
        for live in self._jobs.values():
            live.write()
            self._written_jobs[live.id] = live
        self._written_stages.update(self._stages)
        ended = self._ended if self._ended is not None else now
        duration = ended - self._started if self._started else None
        return State(
            {number: job.row for number, job in sorted(self._written_jobs.items()) if job.row is not None},
            {of: stage.state() for of, stage in sorted(self._written_stages.items())},
            {
                name: executor.row(duration)
                for name, executor in sorted(self._every_executor.items())
                if name != _FALLBACK
            },
            dict(sorted(self._processes.items())),
            {number: rdd.row() for number, rdd in sorted(self._rdds.items())},
            dict(sorted(self._executions.all.items())),
            self._environment,
            dict(sorted(self._profiles.items())),
        )

    def _table(self) -> list[tuple[bytes, Any, Callable[[Any], None]]]:
        spark, scheduler = "SparkListener", "org.apache.spark.scheduler.SparkListener"
        on_sql = "org.apache.spark.sql.execution.ui.SparkListener"
        table: list[tuple[str, Any, Callable[[Any], None]]] = [
            (f"{spark}TaskStart", TaskStart, self._task_started),
            (f"{spark}TaskEnd", TaskEnd, self._task_ended),
            (f"{spark}StageSubmitted", ev.StageSubmitted, self._stage_submitted),
            (f"{spark}StageCompleted", ev.StageCompleted, self._stage_completed),
            (f"{spark}JobStart", ev.JobStart, self._job_started),
            (f"{spark}JobEnd", ev.JobEnd, self._job_ended),
            (f"{spark}ApplicationStart", application.ApplicationStart, self._application_started),
            (f"{spark}ApplicationEnd", application.ApplicationEnd, self._application_ended),
            (f"{spark}EnvironmentUpdate", ev.EnvironmentUpdate, self._environment_told),
            (f"{spark}ResourceProfileAdded", ev.ResourceProfileAdded, self._profile_added),
            (f"{spark}ExecutorAdded", application.ExecutorAdded, self._executor_added),
            (f"{spark}ExecutorRemoved", application.ExecutorRemoved, self._executor_removed),
            (f"{spark}BlockManagerAdded", ev.BlockManagerAdded, self._memory_added),
            (f"{spark}BlockUpdated", ev.BlockUpdated, self._block_updated),
            (f"{spark}UnpersistRDD", jobs.UnpersistRdd, self._unpersisted),
            (f"{spark}StageExecutorMetrics", executors.StageExecutorMetrics, self._peaks_told),
            (f"{spark}ExecutorMetricsUpdate", executors.ExecutorMetricsUpdate, self._heartbeat),
            (f"{scheduler}MiscellaneousProcessAdded", ev.ProcessAdded, self._process_added),
            (f"{on_sql}SQLExecutionStart", SqlStart, self._executions.started),
            (f"{on_sql}SQLExecutionEnd", sql.SqlEnd, self._executions.ended),
            (f"{on_sql}SQLAdaptiveExecutionUpdate", sql.SqlPlanUpdate, self._executions.plan_changed),
            (f"{on_sql}SQLAdaptiveSQLMetricUpdates", sql.SqlMetricsAdded, self._executions.metrics_added),
            (f"{on_sql}DriverAccumUpdates", sql.SqlDriverMetrics, self._executions.driver_counted),
        ]
        for place in ("Executor", "Node"):
            for word in ("Excluded", "Blacklisted"):
                table.append((f"{scheduler}{place}{word}", executors.Excluded, self._excluded))
                table.append((f"{scheduler}{place}{word}ForStage", executors.Excluded, self._excluded))
                table.append((f"{scheduler}{place}Un{word.lower()}", executors.Unexcluded, self._unexcluded))
        return [(name.encode(), kind, handle) for name, kind, handle in table]

    def _application_started(self, event: application.ApplicationStart) -> None:
        self._started, self._ended = event.timestamp, None
        driver = self._executors.get("driver")
        if driver is not None and event.driver_logs is not None:
            driver.logs, driver.attributes = event.driver_logs, event.driver_attributes or {}

    def _application_ended(self, event: application.ApplicationEnd) -> None:
        self._ended = event.timestamp

    def _environment_told(self, event: ev.EnvironmentUpdate) -> None:
        self._environment = event
        cpus = event.spark_properties.get("spark.task.cpus", "")
        if cpus.isascii() and cpus.isdecimal():
            self._cpus_per_task = int(cpus)

    def _profile_added(self, event: ev.ResourceProfileAdded) -> None:
        self._profiles[event.profile] = event

    def _executor(self, name: str, added: int) -> LiveExecutor:
        found = self._executors.get(name)
        if found is None:
            found = self._executors[name] = self._every_executor[name] = LiveExecutor(name, added)
        return found

    def _executor_added(self, event: application.ExecutorAdded) -> None:
        profile = self._profiles.get(event.executor_info.profile)
        cpus = profile.task.get("cpus") if profile is not None else None
        self._executor(event.executor_id, event.timestamp).joined(
            event, self._cpus_per_task if cpus is None else int(cpus.amount)
        )

    def _executor_removed(self, event: application.ExecutorRemoved) -> None:
        executor = self._executors.pop(event.executor_id, None)
        if executor is None:
            return
        executor.is_active, executor.removed, executor.reason = False, event.timestamp, event.reason
        for rdd in self._rdds.values():
            rdd.lost_executor(event.executor_id)
        if self._is_needed(executor):
            self._dead[event.executor_id] = executor

    def _is_needed(self, executor: LiveExecutor) -> bool:
        """Whether a stage that is under way began before an executor went: its peaks are told at the end of the stage."""
        return any((stage.info.submission_time or 0) < (executor.removed or 0) for stage in self._stages.values())

    def _memory_added(self, event: ev.BlockManagerAdded) -> None:
        self._executor(event.block_manager.executor_id, event.timestamp).has_memory(event)

    def _process_added(self, event: ev.ProcessAdded) -> None:
        self._processes[event.process_id] = ProcessRow(
            id=event.process_id, host_port=event.info.host_port, is_active=True, total_cores=event.info.cores,
            add_time=moment_text(event.time), process_logs=event.info.log_url_info,
        )  # fmt: skip

    def _excluded(self, event: executors.Excluded) -> None:
        if event.stage_id is None:
            self._set_excluded(event.executor_id, event.host_id, excluded=True)
            return
        names = [event.executor_id] if event.executor_id else [
            executor.id for executor in self._on_host(event.host_id)
        ]  # fmt: skip
        stage = self._stages.get((event.stage_id, event.stage_attempt_id))
        for name in names:
            if stage is not None:
                stage.executor(name).excluded = True
                stage.excluded.add(name)
            if name in self._executors:
                self._executors[name].excluded_stages.add(event.stage_id)

    def _unexcluded(self, event: executors.Unexcluded) -> None:
        self._set_excluded(event.executor_id, event.host_id, excluded=False)

    def _set_excluded(self, executor: str, host: str, *, excluded: bool) -> None:
        for each in self._on_host(host) if not executor else filter(None, [self._executors.get(executor)]):
            each.excluded = excluded

    def _on_host(self, host: str) -> list[LiveExecutor]:
        """The executors on a host. The driver is never excluded."""
        found = [executor for executor in self._executors.values() if executor.hostname == host]
        return [executor for executor in found if executor.id not in _DRIVERS]

    def _stage(self, info: ev.StageInfo) -> LiveStage:
        of = (info.stage_id, info.attempt)
        stage = self._stages.get(of)
        if stage is None:
            stage = self._stages[of] = LiveStage(info, self._texts)
        stage.info = info
        return stage

    def _job_started(self, event: ev.JobStart) -> None:
        job = self._jobs[event.job_id] = LiveJob(event, self._texts)
        for info in event.stage_infos:
            self._stage(info).jobs.append(job)
        self._executions.job_started(event)

    def _job_ended(self, event: ev.JobEnd) -> None:
        well = event.job_result.result == "JobSucceeded"
        job = self._jobs.pop(event.job_id, None)
        if job is not None:
            for of in [of for of in self._of_job(job) if self._stages[of].status == "PENDING"]:
                stage = self._written_stages[of] = self._stages.pop(of)
                stage.status = "SKIPPED"
                job.skipped_stages.add(of[0])
                job.skipped_tasks += stage.info.number_of_tasks
            job.status = "SUCCEEDED" if well else "FAILED"
            job.completion = event.completion_time if event.completion_time > 0 else None
            job.write()
            self._written_jobs[job.id] = job
        self._executions.job_ended(event.job_id, well=well)

    def _of_job(self, job: LiveJob) -> list[tuple[int, int]]:
        return [of for of in self._stages if of[0] in job.wanted]

    def _stage_submitted(self, event: ev.StageSubmitted) -> None:
        info, properties = event.stage_info, event.properties or ev.Properties()
        stage = self._stage(info)
        stage.status, stage.pool, stage.description = "ACTIVE", properties.pool or DEFAULT_POOL, properties.description
        stage.jobs = [job for job in self._jobs.values() if info.stage_id in job.wanted]
        for job in stage.jobs:
            job.completed_stages.discard(info.stage_id)
            job.active_stages += 1
        for rdd in info.rdds:
            if rdd.storage_level.is_kept and rdd.rdd_id not in self._rdds:
                self._rdds[rdd.rdd_id] = LiveRdd(rdd)
        self._executions.stage_submitted(info)

    def _stage_completed(self, event: ev.StageCompleted) -> None:
        info = event.stage_info
        of = (info.stage_id, info.attempt)
        stage = self._stages.get(of)
        if stage is not None:
            stage.info = info
            submitted = info.submission_time is not None
            stage.status = "FAILED" if info.failure_reason is not None else "COMPLETE" if submitted else "SKIPPED"
            for job in stage.jobs:
                if stage.status == "COMPLETE":
                    job.completed_stages.add(info.stage_id)
                elif stage.status == "SKIPPED":
                    job.skipped_stages.add(info.stage_id)
                    job.skipped_tasks += info.number_of_tasks
                else:
                    job.failed_stages += 1
                job.active_stages -= 1
            for name in stage.excluded & self._executors.keys():
                self._executors[name].excluded_stages.discard(info.stage_id)
            self._written_stages[of] = stage
            if stage.active == 0:
                del self._stages[of]
        self._dead = {name: executor for name, executor in self._dead.items() if self._is_needed(executor)}

    def _task_started(self, event: TaskStart) -> None:
        self._tasks.add(event.task_info.task_id)
        stage = self._stages.get((event.stage_id, event.attempt))
        if stage is not None:
            stage.task_started(event.task_info)
        executor = self._executors.get(event.task_info.executor_id)
        if executor is not None:
            executor.active_tasks += 1
            executor.total_tasks += 1

    def _task_ended(self, event: TaskEnd) -> None:
        task, reason = event.task_info, event.reason
        if task is None:
            return
        metrics = flat(event.task_metrics)
        is_known = task.task_id in self._tasks
        self._tasks.discard(task.task_id)
        of = (event.stage_id, event.attempt)
        stage = self._stages.get(of)
        if stage is not None and stage.task_ended(task, reason, metrics if is_known else None, event.peaks):
            self._written_stages[of] = self._stages.pop(of)
            for job in stage.jobs:
                if job.row is not None:
                    job.write()
        executor = self._executors.get(task.executor_id)
        if executor is not None:
            well, killed = reason.reason == "Success", reason.reason in ("TaskKilled", "TaskCommitDenied")
            executor.peaks.update(event.peaks)
            executor.task_ended(
                task.finish_time - task.launch_time, well=well, failed=not well and not killed,
                metrics=None if reason.reason == "Resubmitted" else metrics,
            )  # fmt: skip
        self._executions.task_ended(event.stage_id, event.attempt, task)

    def _block_updated(self, event: ev.BlockUpdated) -> None:
        block_updated(event.update, self._rdds, self._executors)

    def _unpersisted(self, event: jobs.UnpersistRdd) -> None:
        rdd = self._rdds.pop(event.rdd_id, None)
        if rdd is not None:
            unpersisted(rdd, self._executors)

    def _peaks_told(self, event: executors.StageExecutorMetrics) -> None:
        self._take_peaks(event.executor_id, (event.stage_id, event.attempt), event.peaks, self._dead)

    def _heartbeat(self, event: executors.ExecutorMetricsUpdate) -> None:
        for update in event.updates:
            self._take_peaks(event.executor_id, (update.stage_id, update.attempt), update.peaks, {})

    def _take_peaks(self, name: str, of: tuple[int, int], peaks: dict[str, int], dead: dict[str, LiveExecutor]) -> None:
        executor = self._executors.get(name) or dead.get(name)
        if executor is not None:
            executor.peaks.update(peaks)
        stage = self._stages.get(of)
        if stage is not None:
            stage.peaks.update(peaks)
            stage.executor(name).peaks.update(peaks)
