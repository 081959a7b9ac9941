"""Rows of jobs, stages and tasks, with the names and in the order of Spark's REST API.

A field that is unset is left out of the answer, as Spark leaves it out.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from kvwal.console.sparkevents.accumulators import AccumulatorRow

Text = str | UnsetType
Number = int | UnsetType


class JobRow(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """A job."""

    job_id: int
    name: str
    description: Text = UNSET
    submission_time: Text = UNSET
    completion_time: Text = UNSET
    stage_ids: list[int]
    job_group: Text = UNSET
    job_tags: list[str]
    status: str
    num_tasks: int
    num_active_tasks: int | UnsetType = UNSET
    num_completed_tasks: int
    num_skipped_tasks: int
    num_failed_tasks: int
    num_killed_tasks: int
    num_completed_indices: int | UnsetType = UNSET
    num_active_stages: int | UnsetType = UNSET
    num_completed_stages: int
    num_skipped_stages: int
    num_failed_stages: int
    killed_tasks_summary: dict[str, int]


class ExecutorStageRow(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """The sums of one executor in a stage."""

    task_time: int = 0
    failed_tasks: int = 0
    succeeded_tasks: int = 0
    killed_tasks: int = 0
    input_bytes: int = 0
    input_records: int = 0
    output_bytes: int = 0
    output_records: int = 0
    shuffle_read: int = 0
    shuffle_read_records: int = 0
    shuffle_write: int = 0
    shuffle_write_records: int = 0
    memory_bytes_spilled: int = 0
    disk_bytes_spilled: int = 0
    is_blacklisted_for_stage: bool = False
    peak_memory_metrics: dict[str, int] | UnsetType = UNSET
    is_excluded_for_stage: bool = False


class SpeculationRow(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """The copies of slow tasks of a stage."""

    num_tasks: int = 0
    num_active_tasks: int = 0
    num_completed_tasks: int = 0
    num_failed_tasks: int = 0
    num_killed_tasks: int = 0


class StageRow(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """One attempt at a stage. The last fields are there if details or summaries are asked for."""

    status: str
    stage_id: int
    attempt_id: int
    num_tasks: int
    num_active_tasks: int | UnsetType = UNSET
    num_complete_tasks: int
    num_failed_tasks: int
    num_killed_tasks: int
    num_completed_indices: int | UnsetType = UNSET
    submission_time: Text = UNSET
    first_task_launched_time: Text = UNSET
    completion_time: Text = UNSET
    failure_reason: Text = UNSET
    executor_deserialize_time: Number = UNSET
    executor_deserialize_cpu_time: Number = UNSET
    executor_run_time: Number = UNSET
    executor_cpu_time: Number = UNSET
    result_size: Number = UNSET
    jvm_gc_time: Number = UNSET
    result_serialization_time: Number = UNSET
    memory_bytes_spilled: Number = UNSET
    disk_bytes_spilled: Number = UNSET
    peak_execution_memory: Number = UNSET
    input_bytes: Number = UNSET
    input_records: Number = UNSET
    output_bytes: Number = UNSET
    output_records: Number = UNSET
    shuffle_remote_blocks_fetched: Number = UNSET
    shuffle_local_blocks_fetched: Number = UNSET
    shuffle_fetch_wait_time: Number = UNSET
    shuffle_remote_bytes_read: Number = UNSET
    shuffle_remote_bytes_read_to_disk: Number = UNSET
    shuffle_local_bytes_read: Number = UNSET
    shuffle_read_bytes: Number = UNSET
    shuffle_read_records: Number = UNSET
    shuffle_corrupt_merged_block_chunks: Number = UNSET
    shuffle_merged_fetch_fallback_count: Number = UNSET
    shuffle_merged_remote_blocks_fetched: Number = UNSET
    shuffle_merged_local_blocks_fetched: Number = UNSET
    shuffle_merged_remote_chunks_fetched: Number = UNSET
    shuffle_merged_local_chunks_fetched: Number = UNSET
    shuffle_merged_remote_bytes_read: Number = UNSET
    shuffle_merged_local_bytes_read: Number = UNSET
    shuffle_remote_reqs_duration: Number = UNSET
    shuffle_merged_remote_reqs_duration: Number = UNSET
    shuffle_write_bytes: Number = UNSET
    shuffle_write_time: Number = UNSET
    shuffle_write_records: Number = UNSET
    name: str
    description: Text = UNSET
    details: Text = UNSET
    scheduling_pool: Text = UNSET
    rdd_ids: list[int] | UnsetType = UNSET
    accumulator_updates: list[AccumulatorRow] | UnsetType = UNSET
    tasks: dict[str, msgspec.Raw] | UnsetType = UNSET
    executor_summary: dict[str, ExecutorStageRow] | UnsetType = UNSET
    speculation_summary: SpeculationRow | UnsetType = UNSET
    killed_tasks_summary: dict[str, int]
    resource_profile_id: int
    peak_executor_metrics: dict[str, int] | UnsetType = UNSET
    task_metrics_distributions: dict[str, Any] | UnsetType = UNSET
    executor_metrics_distributions: dict[str, Any] | UnsetType = UNSET
    is_shuffle_push_enabled: bool | UnsetType = UNSET
    shuffle_mergers_count: Number = UNSET


class StageState(msgspec.Struct, gc=False):
    """One attempt at a stage: its row without details, the sums of its executors, the copies of its slow tasks, how near to
    their data its tasks ran, and the running jobs that needed it.
    """

    row: StageRow
    executors: dict[str, ExecutorStageRow]
    speculation: SpeculationRow | None
    locality: dict[str, int]
    jobs: list[int]


class TaskRow(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """One attempt at a task. `metrics` is the flat list of its metrics, None for a task that has told none."""

    task_id: int
    index: int
    attempt: int
    partition_id: int
    launched: int
    result_fetch_start: int
    duration: int
    executor_id: str
    host: str
    status: str
    task_locality: str
    speculative: bool
    accumulator_updates: list[AccumulatorRow]
    error_message: str | None = None
    metrics: list[int] | None = None

    @property
    def getting_result_time(self) -> int:
        """Milliseconds in which its result was fetched."""
        if self.result_fetch_start > 0 and self.duration > 0:
            return self.launched + self.duration - self.result_fetch_start
        return 0

    @property
    def scheduler_delay(self) -> int:
        """Milliseconds of its time in which it neither ran nor was prepared."""
        if self.metrics is None:
            return 0
        m = self.metrics
        return max(0, self.duration - m[2] - m[0] - m[6] - self.getting_result_time)
