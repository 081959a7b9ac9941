"""Sums and quantiles over the tasks of a stage, of bounded size for any number of tasks.

The state is part of the record, so the result is the same for a reader that stopped in between and went on.
"""

from __future__ import annotations

import math
from bisect import bisect_right

from kvwal.spark.events.tasks import TaskEnd, TaskEndReason, TaskInfo, TaskMetrics
from kvwal.spark.records import MAX_MESSAGE, MAX_STACK, Slowest, Stage, TaskFailure, Totals, cut

MAX_FAILURES = 10
_ATTEMPT_SHIFT = 32
KILLED = ("TaskKilled", "TaskCommitDenied")
"""The reasons for which Spark counts a task as killed. It counts every other one, but success, as a failure."""
_RESUBMITTED = "Resubmitted"
"""The task had succeeded, and counts as that; then its executor was lost with what it had written, and that is a failure."""
_EXACT = 64
_GROWTH = math.log(1.02)


def first_time(stage: Stage, task: TaskEnd) -> bool:
    """Add an attempt of a task to `stage.seen`, or to `stage.resubmitted`. False if the attempt is there already.

    Both hold ranges of `attempt << 32 | index`. Tasks finish nearly in order, so they have at most about as many ranges as
    the cluster runs tasks at once.
    """
    number = task.task_info.attempt << _ATTEMPT_SHIFT | task.task_info.index
    seen = stage.resubmitted if task.reason.reason == _RESUBMITTED else stage.seen
    if seen and seen[-1][1] + 1 == number:
        seen[-1][1] = number
        return True
    at = bisect_right(seen, number, key=lambda span: span[0])
    if at and seen[at - 1][1] >= number:
        return False
    joins_left = at > 0 and seen[at - 1][1] + 1 == number
    joins_right = at < len(seen) and seen[at][0] - 1 == number
    if joins_left and joins_right:
        seen[at - 1][1] = seen.pop(at)[1]
    elif joins_left:
        seen[at - 1][1] = number
    elif joins_right:
        seen[at][0] = number
    else:
        seen.insert(at, [number, number])
    return True


def add_task(totals: Totals, task: TaskEnd) -> None:
    """Add a task, its time, its memory and its data to the sums."""
    totals.tasks += 1
    reason = task.reason.reason
    if reason != "Success":
        if reason in KILLED:
            totals.killed += 1
        else:
            totals.failed += 1
    metrics = task.task_metrics
    if metrics is None or reason == _RESUBMITTED:
        return
    totals.run_ms += metrics.executor_run_time
    totals.scheduler_delay_ms += _scheduler_delay_ms(task.task_info, metrics)
    totals.cpu_ms = round(totals.cpu_ms + metrics.cpu_ns / 1e6, 3)
    totals.gc_ms += metrics.gc_ms
    totals.input_bytes += metrics.input_metrics.bytes_read
    totals.input_rows += metrics.input_metrics.records_read
    totals.output_bytes += metrics.output_metrics.bytes_written
    totals.output_rows += metrics.output_metrics.records_written
    read, write = metrics.shuffle_read_metrics, metrics.shuffle_write_metrics
    totals.shuffle_read_bytes += read.remote_bytes_read + read.local_bytes_read
    totals.shuffle_read_rows += read.total_records_read
    totals.shuffle_wait_ms += read.fetch_wait_time
    totals.shuffle_write_bytes += write.shuffle_bytes_written
    totals.shuffle_write_rows += write.shuffle_records_written
    totals.spill_memory_bytes += metrics.memory_bytes_spilled
    totals.spill_disk_bytes += metrics.disk_bytes_spilled
    totals.peak_memory_bytes = max(totals.peak_memory_bytes, metrics.peak_execution_memory)


def _scheduler_delay_ms(info: TaskInfo, metrics: TaskMetrics) -> int:
    """The part of a task's time that it did not run, as Spark computes it (`AppStatusUtils.schedulerDelay`)."""
    fetching_ms = max(0, info.finish_time - info.getting_result_time) if info.getting_result_time else 0
    worked_ms = metrics.executor_run_time + metrics.executor_deserialize_time + metrics.result_serialization_time
    return max(0, info.finish_time - info.launch_time - worked_ms - fetching_ms)


def add_duration(stage: Stage, task: TaskEnd) -> None:
    """Add the duration of a successful task, from its launch to its end, to the histogram."""
    info = task.task_info
    ms = max(0, info.finish_time - info.launch_time)
    bucket = str(_bucket(ms))
    stage.buckets[bucket] = stage.buckets.get(bucket, 0) + 1
    stage.task_min_ms = min(stage.task_min_ms, ms) if stage.slowest else ms
    if stage.slowest is None or ms > stage.slowest.ms:
        metrics = task.task_metrics
        stage.task_max_ms = ms
        stage.slowest = Slowest(
            ms, info.task_id, info.index, info.partition_id, info.executor_id, info.host,
            metrics.input_metrics.bytes_read if metrics else 0,
            metrics.shuffle_read_metrics.local_bytes_read + metrics.shuffle_read_metrics.remote_bytes_read if metrics else 0,
        )  # fmt: skip


def add_failure(stage: Stage, task: TaskEnd) -> int:
    """Add the failure of a task: one for each message, and at most `MAX_FAILURES`. Returns the characters added."""
    message = failure_message(task.reason)
    for failure in stage.failures:
        if failure.message == message:
            failure.count += 1
            return 0
    if len(stage.failures) >= MAX_FAILURES:
        return 0
    info, stack = task.task_info, cut(task.reason.full_stack_trace, MAX_STACK)
    stage.failures.append(TaskFailure(message, stack, 1, info.task_id, info.executor_id, info.host))
    return len(message) + len(stack)


def failure_message(reason: TaskEndReason) -> str:
    """The message of a failed task: one line, or the lines of its exception."""
    if reason.class_name:
        message = f"{reason.class_name}: {reason.description}"
    elif reason.loss_reason:
        message = f"{reason.reason}: executor {reason.executor_id}: {reason.loss_reason}"
    else:
        message = f"{reason.reason}: {reason.message}" if reason.message else reason.reason
    return cut(message, MAX_MESSAGE)


def summarise(stage: Stage) -> None:
    """Compute quantiles and skew from the histogram."""
    if not stage.buckets:
        return
    counts = sorted((int(bucket), count) for bucket, count in stage.buckets.items())
    stage.task_p25_ms, stage.task_median_ms, stage.task_p75_ms, stage.task_p95_ms = (
        min(max(_quantile(counts, share), stage.task_min_ms), stage.task_max_ms) for share in (0.25, 0.5, 0.75, 0.95)
    )
    stage.skew = round(stage.task_max_ms / max(1, stage.task_median_ms), 2)


def _quantile(counts: list[tuple[int, int]], share: float) -> int:
    """The duration of the task at `share` of all in order, as the middle of its bucket. The rank is that of Spark's REST API."""
    tasks = sum(count for _, count in counts)
    left = min(int(share * tasks), tasks - 1) + 1
    for bucket, count in counts:
        left -= count
        if left <= 0:
            return _middle(bucket)
    return _middle(counts[-1][0])


def _bucket(ms: int) -> int:
    """The bucket of a duration: exact below 64 ms, 2 % wide above."""
    return ms if ms < _EXACT else _EXACT + int(math.log(ms / _EXACT) / _GROWTH)


def _middle(bucket: int) -> int:
    return bucket if bucket < _EXACT else round(_EXACT * math.exp((bucket - _EXACT + 0.5) * _GROWTH))
