"""What Spark says about executors: their logs, attributes and resources, the peaks of their memory, and who was excluded."""

from __future__ import annotations

from typing import Any

import pytest

from kvwal.spark import records as rec
from tests.support.spark_records import recorded_lines

SCHEDULER = "org.apache.spark.scheduler.SparkListener"
START = {"Event": "SparkListenerApplicationStart", "App Name": "a", "App ID": "app", "Timestamp": 1_000, "User": "me"}
STAGE = {
    "Stage ID": 3, "Stage Attempt ID": 1, "Stage Name": "s", "Number of Tasks": 2, "Submission Time": 2_000,
    "Resource Profile Id": 4,
}  # fmt: skip
SUBMITTED = {"Event": "SparkListenerStageSubmitted", "Stage Info": STAGE}
ONE, TWO, STAGE_KEY = "app/executor/000001", "app/executor/000002", "app/stage/0000000003/0001"


def added(executor: str, **info: Any) -> dict[str, Any]:
    told = {"Host": "h", "Total Cores": 2, "Resource Profile Id": 0, **info}
    return {"Event": "SparkListenerExecutorAdded", "Timestamp": 1_500, "Executor ID": executor, "Executor Info": told}


def gone(executor: str) -> dict[str, Any]:
    return {
        "Event": "SparkListenerExecutorRemoved",
        "Timestamp": 9_000,
        "Executor ID": executor,
        "Removed Reason": "idle",
    }


def event(name: str, **fields: Any) -> dict[str, Any]:
    return {"Event": SCHEDULER + name, "time": 3_000, **fields}


def peaks(executor: str, **values: int) -> dict[str, Any]:
    return {
        "Event": "SparkListenerStageExecutorMetrics", "Executor ID": executor, "Stage ID": 3, "Stage Attempt ID": 1,
        "Executor Metrics": values,
    }  # fmt: skip


def test_an_executor_has_what_the_cluster_manager_tells_about_it() -> None:
    told = added("1", **{
        "Resource Profile Id": 4,
        "Log Urls": {"stdout": "http://ada:hush@node:8042/logs", "stderr": ""},
        "Attributes": {"CONTAINER_ID": "container_7", "API_TOKEN": "hush"},
        "Resources": {"gpu": {"name": "gpu", "addresses": ["0", "1"]}},
    })  # fmt: skip
    executor = recorded_lines(START, told, times=2)[ONE]
    assert (executor.profile, executor.resources) == (4, {"gpu": ["0", "1"]})
    assert executor.attributes == {"CONTAINER_ID": "container_7", "API_TOKEN": "*********(redacted)"}
    assert executor.logs == {"stdout": "http://ada:*********(redacted)@node:8042/logs", "stderr": ""}


def test_what_is_told_about_an_executor_is_bounded() -> None:
    many = {f"name-{number:03}": "x" * 2_000 for number in range(300)}
    executor = recorded_lines(START, added("1", Attributes=many))[ONE]
    assert (len(executor.attributes), max(map(len, executor.attributes.values()))) == (50, 1_000)


def test_the_driver_has_the_logs_that_the_start_of_the_application_tells() -> None:
    start = {**START, "Driver Logs": {"stdout": "http://node/driver"}, "Driver Attributes": {"POD": "p"}}
    driver = recorded_lines(added("driver"), start)["app/executor/driver"]
    assert (driver.logs, driver.attributes) == ({"stdout": "http://node/driver"}, {"POD": "p"})


@pytest.mark.parametrize("times", [1, 2])
def test_peaks_are_the_greatest_of_all_stages_also_of_an_executor_that_is_gone(times: int) -> None:
    first = peaks("1", JVMHeapMemory=70, ProcessTreeJVMRSSMemory=0, MinorGCCount=2)
    found = recorded_lines(
        START, added("1"), added("2"), SUBMITTED, first, peaks("2", JVMHeapMemory=90), gone("1"),
        peaks("1", JVMHeapMemory=60, MinorGCCount=3), times=times,
    )  # fmt: skip
    assert found[ONE].peaks == {"JVMHeapMemory": 70, "MinorGCCount": 3}
    assert found[TWO].peaks == {"JVMHeapMemory": 90}
    assert found[STAGE_KEY].peaks == {"JVMHeapMemory": 90, "MinorGCCount": 3}
    assert (found["app/app"].stages, found[STAGE_KEY].profile) == (1, 4)


def test_the_heartbeats_of_the_driver_raise_its_peaks() -> None:
    beat = {
        "Event": "SparkListenerExecutorMetricsUpdate", "Executor ID": "driver", "Metrics Updated": [],
        "Executor Metrics Updated": [
            {"Stage ID": -1, "Stage Attempt ID": -1, "Executor Metrics": {"JVMHeapMemory": 80, "MajorGCCount": 0}}
        ],
    }  # fmt: skip
    found = recorded_lines(START, added("driver"), beat)
    assert found["app/executor/driver"].peaks == {"JVMHeapMemory": 80}
    assert "app/executor/000001" not in recorded_lines(START, {**beat, "Executor ID": "1"})


@pytest.mark.parametrize("word", ["Excluded", "Blacklisted"])
@pytest.mark.parametrize("times", [1, 2])
def test_an_excluded_executor_is_marked_until_it_is_not(word: str, times: int) -> None:
    excluded = event(f"Executor{word}", executorId="1", taskFailures=2)
    back = event(f"ExecutorUn{word.lower()}", executorId="1")
    assert recorded_lines(START, added("1"), excluded, excluded, times=times)[ONE].excluded
    assert not recorded_lines(START, added("1"), excluded, back, times=times)[ONE].excluded


@pytest.mark.parametrize("word", ["Excluded", "Blacklisted"])
def test_the_stages_of_which_an_executor_got_no_more_tasks_stay(word: str) -> None:
    for_stage = {"taskFailures": 1, "stageId": 3, "stageAttemptId": 1}
    ended = {"Event": "SparkListenerStageCompleted", "Stage Info": {**STAGE, "Completion Time": 5_000}}
    found = recorded_lines(
        START, added("1"), SUBMITTED,
        event(f"Executor{word}ForStage", executorId="1", **for_stage),
        event(f"Node{word}ForStage", hostId="h", executorFailures=2, stageId=3, stageAttemptId=1),
        ended, times=2,
    )  # fmt: skip
    assert (found[ONE].excluded, found[ONE].excluded_stages) == (False, [3])
    assert (found[STAGE_KEY].excluded_executors, found[STAGE_KEY].excluded_hosts) == (["1"], ["h"])


def test_an_excluded_host_is_one_of_the_application() -> None:
    excluded, back = event("NodeExcluded", hostId="h", executorFailures=2), event("NodeUnexcluded", hostId="h")
    assert recorded_lines(START, excluded, excluded)["app/app"].excluded_hosts == ["h"]
    assert recorded_lines(START, excluded, back)["app/app"].excluded_hosts == []


def test_an_executor_that_is_not_there_is_not_excluded() -> None:
    told = event("ExecutorExcluded", executorId="1", taskFailures=2)
    assert ONE not in recorded_lines(START, told)
    assert not recorded_lines(START, added("1"), gone("1"), told)[ONE].excluded


def test_executors_of_an_earlier_version_are_read() -> None:
    assert rec.from_value({"kind": "executor", "id": "1"}) == rec.Executor(id="1")
