"""Jobs and stages while the events of their application are told."""

from __future__ import annotations

from kvwal.console.sparkevents.accumulators import accumulator_rows
from kvwal.console.sparkevents.events import JobStart, StageInfo
from kvwal.console.sparkevents.metrics import PLACE, Peaks, added, zeros
from kvwal.console.sparkevents.moments import known_moment
from kvwal.console.sparkevents.task_events import EndReason, TaskInfo, describe
from kvwal.console.sparkevents.texts import Texts
from kvwal.console.sparkstate.rows import ExecutorStageRow, JobRow, SpeculationRow, StageRow, StageState

DEFAULT_POOL = "default"


class LiveJob:
    """A job. `row` is what Spark has written of it last."""

    __slots__ = (
        "active_stages", "active_tasks", "completed_indices", "completed_stages", "completed_tasks", "completion", "description",
        "failed_stages", "failed_tasks", "group", "id", "killed_summary", "killed_tasks", "name", "planned", "row",
        "skipped_stages", "skipped_tasks", "stage_ids", "status", "submission", "tags", "wanted",
    )  # fmt: skip

    def __init__(self, event: JobStart, texts: Texts) -> None:
        properties = event.properties
        last = max(event.stage_infos, key=lambda info: info.stage_id, default=None)
        self.id = event.job_id
        self.name = texts.shown(last.stage_name) if last else ""
        self.description = texts.known(properties.description if properties else None)
        self.group = texts.known(properties.group if properties else None)
        self.tags = sorted(set(filter(None, (properties.tags or "").split(",")))) if properties else []
        self.submission = event.submission_time if event.submission_time > 0 else None
        self.completion: int | None = None
        self.stage_ids = event.stage_ids
        self.wanted = frozenset(event.stage_ids)
        self.planned = sum(info.number_of_tasks for info in event.stage_infos if info.completion_time is None)
        self.status = "RUNNING"
        self.active_tasks = self.completed_tasks = self.failed_tasks = self.killed_tasks = self.skipped_tasks = 0
        self.active_stages = self.failed_stages = 0
        self.completed_stages: set[int] = set()
        self.skipped_stages: set[int] = set()
        self.completed_indices: set[tuple[int, int]] = set()
        self.killed_summary: dict[str, int] = {}
        self.row: JobRow | None = None

    def write(self) -> None:
        """Write the row."""
        self.row = JobRow(
            job_id=self.id, name=self.name, description=self.description, submission_time=known_moment(self.submission),
            completion_time=known_moment(self.completion), stage_ids=self.stage_ids, job_group=self.group,
            job_tags=self.tags, status=self.status, num_tasks=self.planned, num_active_tasks=self.active_tasks,
            num_completed_tasks=self.completed_tasks, num_skipped_tasks=self.skipped_tasks, num_failed_tasks=self.failed_tasks,
            num_killed_tasks=self.killed_tasks, num_completed_indices=len(self.completed_indices),
            num_active_stages=self.active_stages, num_completed_stages=len(self.completed_stages),
            num_skipped_stages=len(self.skipped_stages), num_failed_stages=self.failed_stages,
            killed_tasks_summary=dict(self.killed_summary),
        )  # fmt: skip


class _ExecutorSums:
    """The sums of one executor in a stage."""

    __slots__ = ("active", "excluded", "failed", "killed", "metrics", "peaks", "succeeded", "task_time")

    def __init__(self) -> None:
        self.active = self.task_time = self.succeeded = self.failed = self.killed = 0
        self.excluded = False
        self.metrics = zeros()
        self.peaks = Peaks()

    def row(self) -> ExecutorStageRow:
        """The row."""
        m = self.metrics
        return ExecutorStageRow(
            task_time=self.task_time, failed_tasks=self.failed, succeeded_tasks=self.succeeded, killed_tasks=self.killed,
            input_bytes=m[PLACE["inputBytes"]], input_records=m[PLACE["inputRecords"]], output_bytes=m[PLACE["outputBytes"]],
            output_records=m[PLACE["outputRecords"]],
            shuffle_read=m[PLACE["shuffleRemoteBytesRead"]] + m[PLACE["shuffleLocalBytesRead"]],
            shuffle_read_records=m[PLACE["shuffleReadRecords"]], shuffle_write=m[PLACE["shuffleWriteBytes"]],
            shuffle_write_records=m[PLACE["shuffleWriteRecords"]], memory_bytes_spilled=m[PLACE["memoryBytesSpilled"]],
            disk_bytes_spilled=m[PLACE["diskBytesSpilled"]], is_blacklisted_for_stage=self.excluded,
            peak_memory_metrics=self.peaks.shown(), is_excluded_for_stage=self.excluded,
        )  # fmt: skip


class LiveStage:
    """One attempt at a stage."""

    __slots__ = (
        "_texts", "active", "completed", "completed_indices", "description", "excluded", "executors", "failed",
        "first_launch", "info",
        "jobs", "killed", "killed_summary", "locality", "metrics", "peaks", "pool", "speculation", "status",
    )  # fmt: skip

    def __init__(self, info: StageInfo, texts: Texts) -> None:
        self.info = info
        self._texts = texts
        self.jobs: list[LiveJob] = []
        self.status = "PENDING"
        self.description: str | None = None
        self.pool = DEFAULT_POOL
        self.active = self.completed = self.failed = self.killed = 0
        self.completed_indices: set[int] = set()
        self.killed_summary: dict[str, int] = {}
        self.first_launch: int | None = None
        self.locality: dict[str, int] = {}
        self.metrics = zeros()
        self.peaks = Peaks()
        self.executors: dict[str, _ExecutorSums] = {}
        self.excluded: set[str] = set()
        self.speculation: SpeculationRow | None = None

    def executor(self, executor: str) -> _ExecutorSums:
        """The sums of an executor."""
        sums = self.executors.get(executor)
        if sums is None:
            sums = self.executors[executor] = _ExecutorSums()
        return sums

    def task_started(self, task: TaskInfo) -> None:
        """A task was launched."""
        if task.speculative:
            copies = self.speculation = self.speculation or SpeculationRow()
            copies.num_active_tasks += 1
            copies.num_tasks += 1
        self.active += 1
        if self.first_launch is None or task.launch_time < self.first_launch:
            self.first_launch = task.launch_time
        self.locality[task.locality] = self.locality.get(task.locality, 0) + 1
        for job in self.jobs:
            job.active_tasks += 1

    def task_ended(
        self, task: TaskInfo, reason: EndReason, metrics: list[int] | None, peaks: dict[str, int] | None
    ) -> bool:
        """A task ended. `metrics` is None if its start was not told. Returns whether it was the last one of an ended stage."""
        well, killed = reason.reason == "Success", reason.reason in ("TaskKilled", "TaskCommitDenied")
        failed = not well and not killed
        sums = self.executor(task.executor_id)
        if metrics is not None:
            self.metrics = added(self.metrics, metrics)
            sums.metrics = added(sums.metrics, metrics)
        self.active -= 1
        self.completed += well
        self.failed += failed
        self.killed += killed
        if well:
            self.completed_indices.add(task.index)
        why = ""
        if killed:
            why = self._texts.shown(reason.kill_reason if reason.reason == "TaskKilled" else describe(reason))
            self.killed_summary[why] = self.killed_summary.get(why, 0) + 1
        self.peaks.update(peaks)
        sums.peaks.update(peaks)
        sums.task_time += task.finish_time - task.launch_time
        sums.succeeded += well
        sums.failed += failed
        sums.killed += killed
        if task.speculative:
            copies = self.speculation = self.speculation or SpeculationRow()
            copies.num_active_tasks -= 1
            copies.num_completed_tasks += well
            copies.num_failed_tasks += failed
            copies.num_killed_tasks += killed
        for job in self.jobs:
            job.active_tasks -= 1
            job.completed_tasks += well
            job.failed_tasks += failed
            job.killed_tasks += killed
            if well:
                job.completed_indices.add((self.info.stage_id, task.index))
            if killed:
                job.killed_summary[why] = job.killed_summary.get(why, 0) + 1
        return self.active == 0 and self.status in ("COMPLETE", "FAILED")

    def state(self) -> StageState:
        """The state of the stage."""
        info, m, texts = self.info, self.metrics, self._texts
        row = StageRow(
            status=self.status, stage_id=info.stage_id, attempt_id=info.attempt, num_tasks=info.number_of_tasks,
            num_active_tasks=self.active, num_complete_tasks=self.completed, num_failed_tasks=self.failed,
            num_killed_tasks=self.killed, num_completed_indices=len(self.completed_indices),
            submission_time=known_moment(info.submission_time), first_task_launched_time=known_moment(self.first_launch),
            completion_time=known_moment(info.completion_time), failure_reason=texts.known(info.failure_reason),
            executor_deserialize_time=m[0], executor_deserialize_cpu_time=m[1], executor_run_time=m[2], executor_cpu_time=m[3],
            result_size=m[4], jvm_gc_time=m[5], result_serialization_time=m[6], memory_bytes_spilled=m[7],
            disk_bytes_spilled=m[8], peak_execution_memory=m[9], input_bytes=m[10], input_records=m[11], output_bytes=m[12],
            output_records=m[13], shuffle_remote_blocks_fetched=m[14], shuffle_local_blocks_fetched=m[15],
            shuffle_fetch_wait_time=m[16], shuffle_remote_bytes_read=m[17], shuffle_remote_bytes_read_to_disk=m[18],
            shuffle_local_bytes_read=m[19], shuffle_read_bytes=m[17] + m[19], shuffle_read_records=m[20],
            shuffle_corrupt_merged_block_chunks=m[22], shuffle_merged_fetch_fallback_count=m[23],
            shuffle_merged_remote_blocks_fetched=m[24], shuffle_merged_local_blocks_fetched=m[25],
            shuffle_merged_remote_chunks_fetched=m[26], shuffle_merged_local_chunks_fetched=m[27],
            shuffle_merged_remote_bytes_read=m[28], shuffle_merged_local_bytes_read=m[29], shuffle_remote_reqs_duration=m[21],
            shuffle_merged_remote_reqs_duration=m[30], shuffle_write_bytes=m[31], shuffle_write_time=m[32],
            shuffle_write_records=m[33],
            name=texts.shown(info.stage_name), description=texts.known(self.description), details=texts.shown(info.details),
            scheduling_pool=self.pool, rdd_ids=[rdd.rdd_id for rdd in info.rdds],
            accumulator_updates=accumulator_rows(info.accumulables), killed_tasks_summary=self.killed_summary,
            resource_profile_id=info.profile, peak_executor_metrics=self.peaks.shown(),
            is_shuffle_push_enabled=info.push_enabled, shuffle_mergers_count=info.push_mergers,
        )  # fmt: skip
        executors = {executor: sums.row() for executor, sums in sorted(self.executors.items())}
        return StageState(row, executors, self.speculation, self.locality, sorted(job.id for job in self.jobs))
