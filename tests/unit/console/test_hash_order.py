"""The order of the jobs and stages of an execution: that in which Scala goes through its immutable maps and sets.

The scala-library 2.13.18 that pyspark 4.3.0 contains printed the orders, of sets and maps made as Spark's listener makes them.
"""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvwal.console.sparkapi import sql
from kvwal.console.sparkevents.events import JobStart, Properties, StageInfo
from kvwal.console.sparkevents.task_events import TaskInfo
from kvwal.console.sparksql.events import SqlStart
from kvwal.console.sparksql.executions import Execution, Executions
from kvwal.console.sparksql.hash_order import hash_order
from kvwal.spark.events.sql import PlanMetric, PlanNode, SqlEnd

_METRIC = 70
_OF_FORTY = [
    *(0, 5, 10, 14, 1, 6, 9, 13, 2, 12, 18, 11, 8, 4, 15, 24, 37, 25, 20, 29),
    *(21, 33, 28, 38, 17, 32, 34, 22, 27, 7, 39, 3, 35, 16, 31, 26, 23, 36, 30, 19),
]


@pytest.mark.parametrize(
    ("added", "order"),
    [
        ([], []),
        ([9], [9]),
        ([9, 2, 7, 4], [9, 2, 7, 4]),
        ([9, 2, 7, 4, 1], [1, 9, 2, 7, 4]),
        ([8, 9, 10, 11, 12, 13, 14], [10, 14, 9, 13, 12, 11, 8]),
        ([14, 13, 12, 11, 10, 9, 8], [10, 14, 9, 13, 12, 11, 8]),
        (list(range(40)), _OF_FORTY),
        (
            [-1, 0, 2147483647, -2147483648, 1, -1000000007, 1000000007],
            [1000000007, 1, -1000000007, 0, -2147483648, 2147483647, -1],
        ),
        # Three hashes are equal in their lowest 20 bits, then four in all but the two highest.
        ([4035079, 22150, 5, 557176, 3, 1], [5, 1, 3, 22150, 4035079, 557176]),
        (
            [-2097706508, 279803008, 7, -888248461, 633679356, 8],
            [7, 8, 279803008, 633679356, -888248461, -2097706508],
        ),
    ],
)
def test_the_order_is_that_of_scala(added: list[int], order: list[int]) -> None:
    assert hash_order(added) == order


@given(st.lists(st.integers(-(1 << 62), 1 << 62) | st.integers(0, 3).map(lambda many: 5 + (many << 32)), unique=True))
def test_each_key_comes_once_with_any_hash(keys: list[int]) -> None:
    """Also keys that no Spark gives: of more than 32 bits, so that hashes are equal."""
    assert sorted(hash_order(keys)) == sorted(keys)


@pytest.mark.parametrize(
    ("started", "shown"), [([4, 3, 9, 1], [4, 3, 9, 1]), (list(range(8, 15)), [10, 14, 9, 13, 12, 11, 8])]
)
def test_jobs_of_an_execution_come_in_sparks_order(started: list[int], shown: list[int]) -> None:
    executions = Executions()
    for job in started:
        executions.job_started(JobStart(job, properties=Properties(sql="0")))
    assert _jobs_shown(executions.all[0]) == {"runningJobIds": shown, "successJobIds": [], "failedJobIds": []}
    for job in sorted(started):
        executions.job_ended(job, well=job != 9)
    succeeded, failed = [job for job in shown if job != 9], [9]
    assert _jobs_shown(executions.all[0]) == {"runningJobIds": [], "successJobIds": succeeded, "failedJobIds": failed}


@pytest.mark.parametrize(
    ("jobs", "first"), [([[3, 2]], 3), ([[3, 2], [2, 3]], 3), ([[2, 9], [4, 7], [1]], 1), ([list(range(8, 15))], 10)]
)
def test_of_equal_tasks_that_of_the_first_stage_in_sparks_order_is_named(jobs: list[list[int]], first: int) -> None:
    """The task of the stage with number n has number 100 + n."""
    executions = Executions()
    plan = PlanNode("Scan", metrics=[PlanMetric("bytes", _METRIC, "size")])
    executions.started(SqlStart(0, spark_plan_info=plan))
    told = msgspec.Raw(json.dumps([{"ID": _METRIC, "Update": "7"}]).encode())
    for number, stages in enumerate(jobs):
        infos = [StageInfo(stage, number_of_tasks=1) for stage in stages]
        executions.job_started(JobStart(number, 0, infos, stages, Properties(sql="0")))
    for stage in sorted({stage for stages in jobs for stage in stages}):
        executions.task_ended(stage, 0, TaskInfo(100 + stage, 0, finish_time=1, accumulables=told))
    executions.ended(SqlEnd(0))
    assert f"(stage {first}.0: task {100 + first})" in executions.all[0].metric_values[_METRIC]


def _jobs_shown(execution: Execution) -> dict[str, list[int]]:
    shown = sql._shown(execution, details=False, plan=False, now=0)
    return {name: value for name, value in shown.items() if name.endswith("JobIds")}
