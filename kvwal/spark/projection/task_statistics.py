"""Sums and quantiles over the tasks of a stage, of bounded size for any number of tasks.

The state is part of the record, so the result is the same for a reader that stopped in between and went on.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from kvwal.spark.events.jobs import Accumulable
from kvwal.spark.events.tasks import AccumulatorUpdate, TaskEnd, TaskEndReason, TaskInfo, TaskMetrics, updates_of
from kvwal.spark.records import (
    MAX_MESSAGE,
    MAX_STACK,
    Histogram,
    Histograms,
    Job,
    Quantiles,
    Slowest,
    Speculation,
    Stage,
    StageMetrics,
    TaskFailure,
    TaskQuantiles,
    Totals,
    cut,
)

MAX_FAILURES = 10
MAX_REASONS = 10
MAX_REASON = 200
_ATTEMPT_SHIFT = 32
_DENIED = "TaskCommitDenied"
_COMMIT_DENIED = "TaskCommitDenied (Driver denied task commit)"
KILLED = ("TaskKilled", _DENIED)
"""The reasons for which Spark counts a task as killed. It counts every other one, but success, as a failure."""
_RESUBMITTED = "Resubmitted"
"""The task had succeeded, and counts as that; then its executor was lost with what it had written, and that is a failure."""
_SUCCESS = "Success"
_MOST = 1 << 62
"""No metric is as great. A greater number would not fit into a store."""
_EXACT = 64
_GROWTH = math.log(1.02)
_SHARES = (0.25, 0.5, 0.75, 0.95)
_EXACT_BINS = 32
_BIN_NAMES = [str(number) for number in range(1_024)]
"""The bins of all numbers below 2^62: exact below 32, else the first five bits and their place, so at most 1/16 wide.

To make the text of a number takes longer than to find its bin.
"""


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


def _was_tried_before(stage: Stage, task: TaskEnd) -> bool:
    """Whether another try of the task has ended. The task is in `stage.seen` already."""
    info, seen, at = task.task_info, stage.seen, 0
    if not seen[-1][1] >> _ATTEMPT_SHIFT:
        return False
    while at < len(seen):
        tried = seen[at][0] >> _ATTEMPT_SHIFT
        number = tried << _ATTEMPT_SHIFT | info.index
        before = bisect_right(seen, number, key=lambda span: span[0]) - 1
        if tried != info.attempt and before >= 0 and seen[before][1] >= number:
            return True
        at = bisect_right(seen, (tried + 1 << _ATTEMPT_SHIFT) - 1, key=lambda span: span[0])
    return False


def add_metrics(stage: Stage, task: TaskEnd, floors: Mapping[int, int], totals: dict[int, int]) -> None:
    """Add the metrics of a task that have a floor to `totals`, by accumulator id, as Spark's own pages count them.

    The last try of a task counts until one has succeeded, and the first success after that. A value below the floor of its
    metric counts as 0. The try is in `stage.seen` already.
    """
    if task.reason.reason == _RESUBMITTED:
        return
    if stage.sql_metrics is None:
        stage.sql_metrics = StageMetrics()
    if stage.sql_metrics.is_replaced:
        return
    unsuccessful, index = stage.sql_metrics.unsuccessful, str(task.task_info.index)
    counted = unsuccessful.pop(index, None) if unsuccessful else None
    if counted is None and _was_tried_before(stage, task):
        return
    values = measured(updates_of(task.task_info), floors)
    for number, value in values.items():
        totals[number] = totals.get(number, 0) + value
    if counted:
        for number in values:
            totals[number] -= counted.get(str(number), 0)
    if task.reason.reason != _SUCCESS:
        unsuccessful[index] = (counted or {}) | {str(number): value for number, value in values.items()}


def measured(items: Iterable[Accumulable | AccumulatorUpdate], floors: Mapping[int, int]) -> dict[int, int]:
    """The values of the metrics that have a floor, by accumulator id. Spark writes them as text; other texts are left out.

    One loop without calls: it runs for each metric of each task.
    """
    values = {}
    for item in items:
        number, value = item.id, item.value
        floor = floors.get(number)
        if floor is None or (type(value) is not str and type(value) is not int):
            continue
        try:
            value = int(value)
        except ValueError:
            continue
        if value < floor:
            values[number] = 0
        elif -_MOST < value < _MOST:
            values[number] = value
    return values


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
    totals.run_ms += max(0, metrics.executor_run_time)  # below 0 where an executor's clock was set back
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


def add_quantities(stage: Stage, metrics: TaskMetrics | None) -> None:
    """Add the metrics of a successful task to the histograms of its stage, unless `close_histograms` has closed them."""
    histograms = stage.histograms
    if histograms is None:
        if stage.status == "SUCCEEDED":
            return
        histograms = stage.histograms = Histograms()
    histograms.tasks += 1
    if metrics is None:
        return
    read, counts = metrics.shuffle_read_metrics, histograms
    # Most are 0 in most tasks, and this runs for every task: a call that does nothing would cost more than the tests.
    if value := metrics.gc_ms:
        counts.gc_ms = _counted(counts.gc_ms, value)
    if value := metrics.peak_execution_memory:
        counts.peak_memory_bytes = _counted(counts.peak_memory_bytes, value)
    if value := metrics.input_metrics.bytes_read:
        counts.input_bytes = _counted(counts.input_bytes, value)
    if value := metrics.output_metrics.bytes_written:
        counts.output_bytes = _counted(counts.output_bytes, value)
    if value := read.local_bytes_read + read.remote_bytes_read:
        counts.shuffle_read_bytes = _counted(counts.shuffle_read_bytes, value)
    if value := metrics.shuffle_write_metrics.shuffle_bytes_written:
        counts.shuffle_write_bytes = _counted(counts.shuffle_write_bytes, value)
    if value := metrics.memory_bytes_spilled:
        counts.spill_memory_bytes = _counted(counts.spill_memory_bytes, value)
    if value := metrics.disk_bytes_spilled:
        counts.spill_disk_bytes = _counted(counts.spill_disk_bytes, value)


def _counted(histogram: Histogram | None, value: int) -> Histogram | None:
    """The histogram with one more value, unless the value is not above 0. None until one is."""
    if value <= 0:
        return histogram
    if histogram is None:
        histogram = Histogram(value, value)
    elif value < histogram.least:
        histogram.least = value
    elif value > histogram.greatest:
        histogram.greatest = value
    shift = value.bit_length() - 5
    name = _BIN_NAMES[value if shift <= 0 else (shift << 4) + (value >> shift)]
    buckets = histogram.buckets
    buckets[name] = buckets[name] + 1 if name in buckets else 1
    return histogram


def add_kill(record: Stage | Job, reason: TaskEndReason) -> None:
    """Count a killed task for its reason: Spark's text, without the numbers of the task. At most `MAX_REASONS` reasons."""
    known = _COMMIT_DENIED if reason.reason == _DENIED else cut(reason.kill_reason or reason.reason, MAX_REASON)
    if known in record.kill_reasons or len(record.kill_reasons) < MAX_REASONS:
        record.kill_reasons[known] = record.kill_reasons.get(known, 0) + 1


def add_speculative(stage: Stage, reason: str) -> None:
    """Count the end of a copy of a slow task."""
    speculation = stage.speculation
    if speculation is None:
        speculation = stage.speculation = Speculation()
    speculation.tasks += 1
    if reason in KILLED:
        speculation.killed += 1
    elif reason != "Success":
        speculation.failed += 1


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


def close_histograms(stage: Stage) -> None:
    """Drop the histograms of a stage that has succeeded: Spark tells the end of each task before, and the record gets small."""
    if stage.histograms is not None:
        stage.quantiles, stage.histograms = _task_quantiles(stage.histograms), None


def duration_counts(stage: Stage) -> list[tuple[int, int]]:
    """The durations of successful tasks, in milliseconds and in order, and how many tasks had each; within 1 %."""
    return [
        (_middle(bucket), count)
        for bucket, count in sorted((int(name), count) for name, count in stage.buckets.items())
    ]


def summarise(stage: Stage) -> None:
    """Compute quantiles and skew from the histograms."""
    if stage.histograms is not None:
        stage.quantiles = _task_quantiles(stage.histograms)
    if not stage.buckets:
        return
    counts = sorted((int(bucket), count) for bucket, count in stage.buckets.items())
    stage.task_p25_ms, stage.task_median_ms, stage.task_p75_ms, stage.task_p95_ms = (
        min(max(_middle(_ranked(counts, share)), stage.task_min_ms), stage.task_max_ms) for share in _SHARES
    )
    stage.skew = round(stage.task_max_ms / max(1, stage.task_median_ms), 2)


def _task_quantiles(histograms: Histograms) -> TaskQuantiles:
    return TaskQuantiles(*(
        _quantiles(getattr(histograms, name), histograms.tasks) for name in TaskQuantiles.__struct_fields__
    ))  # fmt: skip


def _quantiles(histogram: Histogram | None, tasks: int) -> Quantiles | None:
    """The quantiles of a metric over all tasks, those included in which it is 0."""
    if histogram is None:
        return None
    counts = sorted((int(bucket), count) for bucket, count in histogram.buckets.items())
    zeros = tasks - sum(count for _, count in counts)
    counts = [(0, zeros), *counts] if zeros > 0 else counts
    least, greatest = 0 if zeros > 0 else histogram.least, histogram.greatest
    bins = (_ranked(counts, share) for share in _SHARES)
    p25, median, p75, p95 = (min(max(_middle_of_bin(each), histogram.least), greatest) if each else 0 for each in bins)
    return Quantiles(least, p25, median, p75, p95, greatest)


def _ranked(counts: list[tuple[int, int]], share: float) -> int:
    """The bucket of the task at `share` of all in order. The rank is that of Spark's REST API."""
    tasks = sum(count for _, count in counts)
    left = min(int(share * tasks), tasks - 1) + 1
    for bucket, count in counts:
        left -= count
        if left <= 0:
            return bucket
    return counts[-1][0]


def _bucket(ms: int) -> int:
    """The bucket of a duration: exact below 64 ms, 2 % wide above."""
    return ms if ms < _EXACT else _EXACT + int(math.log(ms / _EXACT) / _GROWTH)


def _middle(bucket: int) -> int:
    return bucket if bucket < _EXACT else round(_EXACT * math.exp((bucket - _EXACT + 0.5) * _GROWTH))


def _middle_of_bin(number: int) -> int:
    if number < _EXACT_BINS:
        return number
    shift = (number >> 4) - 1
    return ((number - (shift << 4)) << shift) + (1 << (shift - 1))
