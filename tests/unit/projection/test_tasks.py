"""Sums and quantiles over tasks: within their error, small, and the same in any order and after any interruption."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kvwal.spark.events.tasks import TaskEnd, TaskEndReason, TaskInfo, TaskMetrics
from kvwal.spark.projection import task_statistics
from kvwal.spark.record_keys import executor_key, job_key, stage_key, stream_key
from kvwal.spark.records import Stage, cut, from_value, to_value

durations = st.lists(st.integers(0, 10**9), min_size=1, max_size=200)
numbers = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), max_size=200)


def ended(index: int, ms: int = 10, attempt: int = 0, reason: str = "Success") -> TaskEnd:
    """The end of a task."""
    info = TaskInfo(task_id=index, index=index, attempt=attempt, launch_time=1_000, finish_time=1_000 + ms)
    return TaskEnd(stage_id=0, reason=TaskEndReason(reason=reason), task_info=info, task_metrics=TaskMetrics())


@given(durations)
def test_quantiles_are_within_one_percent(spans: list[int]) -> None:
    stage = Stage()
    for index, ms in enumerate(spans):
        task_statistics.add_duration(stage, ended(index, ms))
    task_statistics.summarise(stage)
    ordered = sorted(spans)
    for share, found in (
        (0.25, stage.task_p25_ms),
        (0.5, stage.task_median_ms),
        (0.75, stage.task_p75_ms),
        (0.95, stage.task_p95_ms),
    ):
        true = ordered[min(int(share * len(ordered)), len(ordered) - 1)]  # as Spark ranks
        assert abs(found - true) <= 1 + 0.01 * true
    assert (stage.task_min_ms, stage.task_max_ms) == (ordered[0], ordered[-1])
    assert len(stage.buckets) <= 64 + math.log(10**9 / 64) / math.log(1.02) + 1


@given(st.lists(st.integers(-5, 1 << 61), min_size=1, max_size=200))
def test_quantiles_of_metrics_are_within_four_percent(sizes: list[int]) -> None:
    stage = Stage()
    for size in sizes:
        task_statistics.add_quantities(stage, TaskMetrics(disk_bytes_spilled=size))
    task_statistics.summarise(stage)
    ordered = sorted(max(0, size) for size in sizes)
    if not ordered[-1]:
        assert stage.quantiles is not None
        assert stage.quantiles.spill_disk_bytes is None
        return
    assert stage.quantiles is not None
    found = stage.quantiles.spill_disk_bytes
    assert found is not None
    for share, value in ((0.25, found.p25), (0.5, found.median), (0.75, found.p75), (0.95, found.p95)):
        true = ordered[min(int(share * len(ordered)), len(ordered) - 1)]
        assert abs(value - true) <= 0.04 * true
    assert (found.min, found.max) == (ordered[0], ordered[-1])
    assert from_value(to_value(stage)) == stage


def test_a_task_that_ends_before_it_begins_took_no_time() -> None:
    """As it may when a driver's clock is set back."""
    stage = Stage()
    for index, ms in enumerate((-5_000, 40)):
        task_statistics.add_duration(stage, ended(index, ms))
        task_statistics.add_task(stage, ended(index, ms))
    task_statistics.summarise(stage)
    assert (stage.task_min_ms, stage.task_max_ms, stage.scheduler_delay_ms) == (0, 40, 40)


@given(numbers)
def test_each_run_of_a_task_counts_once(runs: list[tuple[int, int]]) -> None:
    stage = Stage()
    counted = [run for run in runs if task_statistics.first_time(stage, ended(run[0], attempt=run[1]))]
    assert counted == list(dict.fromkeys(runs))
    spans = [number for span in stage.seen for number in range(span[0], span[1] + 1)]
    assert spans == sorted(attempt << 32 | index for index, attempt in set(runs))
    assert all(left[1] + 1 < right[0] for left, right in zip(stage.seen, stage.seen[1:], strict=False)), (
        "ranges that touch are one"
    )


@given(numbers, st.integers(0, 200))
def test_a_stage_that_was_stored_in_between_is_the_same(runs: list[tuple[int, int]], stop: int) -> None:
    def count(stage: Stage, part: list[tuple[int, int]]) -> Stage:
        for index, attempt in part:
            task = ended(index, index * 7, attempt)
            if task_statistics.first_time(stage, task):
                task_statistics.add_task(stage, task)
                task_statistics.add_duration(stage, task)
        task_statistics.summarise(stage)
        return stage

    stored: Any = msgspec.json.decode(msgspec.json.encode(to_value(count(Stage(), runs[:stop]))))
    again = from_value(stored)
    assert isinstance(again, Stage)
    assert count(again, runs[stop:]) == count(Stage(), runs)


def test_of_two_tasks_the_median_is_the_longer_one_as_spark_has_it() -> None:
    stage = Stage()
    for index, ms in enumerate((10, 20)):
        task_statistics.add_duration(stage, ended(index, ms))
    task_statistics.summarise(stage)
    assert (stage.task_p25_ms, stage.task_median_ms, stage.skew) == (10, 20, 1.0)


def test_the_delay_of_a_task_is_what_it_did_not_run() -> None:
    info = TaskInfo(task_id=1, index=1, launch_time=1_000, finish_time=1_500, getting_result_time=1_450)
    metrics = TaskMetrics(executor_run_time=300, executor_deserialize_time=40, result_serialization_time=10)
    task = TaskEnd(stage_id=0, reason=TaskEndReason(reason="Success"), task_info=info, task_metrics=metrics)
    totals = Stage()
    task_statistics.add_task(totals, task)
    assert totals.scheduler_delay_ms == 500 - 300 - 40 - 10 - 50


def test_ways_of_failing_are_few_however_many_tasks_fail() -> None:
    stage = Stage()
    for index in range(1_000):
        task = ended(index, reason=f"Reason{index % 50}")
        task_statistics.add_task(stage, task)
        task_statistics.add_failure(stage, task)
    assert len(stage.failures) == task_statistics.MAX_FAILURES
    assert stage.failures[0].count == 20
    assert stage.failed == 1_000


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_keys_sort_as_their_numbers_do(one: int, other: int) -> None:
    for key in (lambda n: job_key("a", n), lambda n: stage_key("a", n, 0), lambda n: stream_key("a", "q", n)):
        assert (key(one) < key(other)) == (one < other)
    assert executor_key("a", "../x") == "a/executor/..%2Fx"


@given(st.text(), st.integers(40, 400))
def test_a_cut_text_is_short_and_keeps_both_ends(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert len(short) <= limit
    assert short == text or (text.startswith(short[:5]) and text.endswith(short[-2:]))
