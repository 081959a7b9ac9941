"""Jobs and stages beside their sums: kills, skipped tasks, copies of slow tasks, accumulators, quantiles."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvwal.entry import Entry
from kvwal.spark import records as rec
from kvwal.spark.tables.catalogue import TABLES
from tests.support.spark_records import recorded_lines

JOB, STAGE = "app/job/0000000000", "app/stage/0000000000/0000"


def planned(stage: int, tasks: int) -> dict[str, Any]:
    return {"Stage ID": stage, "Stage Attempt ID": 0, "Stage Name": "s", "Number of Tasks": tasks}


def job(number: int, *stages: dict[str, Any]) -> dict[str, Any]:
    ids = [stage["Stage ID"] for stage in stages]
    return {
        "Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": 1_000, "Stage Infos": list(stages),
        "Stage IDs": ids,
    }  # fmt: skip


def job_end(number: int) -> dict[str, Any]:
    result = {"Result": "JobSucceeded"}
    return {"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": 9_000, "Job Result": result}


def begins(stage: int, attempt: int = 0, tasks: int = 2) -> dict[str, Any]:
    info = {**planned(stage, tasks), "Stage Attempt ID": attempt, "Submission Time": 2_000}
    return {"Event": "SparkListenerStageSubmitted", "Stage Info": info}


def completes(*accumulables: dict[str, Any]) -> dict[str, Any]:
    info = {**planned(0, 2), "Submission Time": 2_000, "Completion Time": 8_000, "Accumulables": accumulables}
    return {"Event": "SparkListenerStageCompleted", "Stage Info": info}


def task(index: int, *, speculative: bool = False, metrics: Any = None, **reason: Any) -> dict[str, Any]:
    return {
        "Event": "SparkListenerTaskEnd", "Stage ID": 0, "Stage Attempt ID": 0,
        "Task End Reason": reason or {"Reason": "Success"},
        "Task Info": {
            "Task ID": index, "Index": index, "Attempt": 0, "Launch Time": 2_000, "Finish Time": 3_000,
            "Executor ID": "1", "Speculative": speculative,
        },
        "Task Metrics": metrics or {},
    }  # fmt: skip


def killed(index: int, why: str, *, speculative: bool = False) -> dict[str, Any]:
    return task(index, speculative=speculative, **{"Reason": "TaskKilled", "Kill Reason": why})


def denied(index: int) -> dict[str, Any]:
    return task(index, **{"Reason": "TaskCommitDenied", "Job ID": 0, "Partition ID": index, "Attempt Number": 1})


def read_and_wrote(read: int, written: int, gc: int = 0) -> dict[str, Any]:
    return {
        "JVM GC Time": gc,
        "Shuffle Read Metrics": {"Local Bytes Read": read // 2, "Remote Bytes Read": read - read // 2},
        "Output Metrics": {"Bytes Written": written},
    }  # fmt: skip


@pytest.mark.parametrize("times", [1, 2])
def test_killed_tasks_are_counted_by_reason(times: int) -> None:
    found = recorded_lines(
        job(0, planned(0, 9)), begins(0, tasks=9), task(0),
        *(killed(index, "another attempt succeeded") for index in (1, 2)), killed(3, "Stage cancelled"),
        denied(4), denied(5), times=times,
    )  # fmt: skip
    reasons = {
        "another attempt succeeded": 2, "Stage cancelled": 1, "TaskCommitDenied (Driver denied task commit)": 2
    }  # fmt: skip
    for key in (JOB, STAGE):
        assert (found[key].killed, found[key].kill_reasons) == (5, reasons)


def test_reasons_of_kills_are_bounded() -> None:
    kills = [killed(index, f"reason {index} " + "x" * 900) for index in range(30)]
    stage = recorded_lines(job(0, planned(0, 30)), begins(0), *kills)[STAGE]
    assert (stage.killed, len(stage.kill_reasons), sum(stage.kill_reasons.values())) == (30, 10, 10)
    assert max(map(len, stage.kill_reasons)) == 200


@pytest.mark.parametrize("times", [1, 2])
def test_the_tasks_of_stages_that_did_not_run_are_skipped(times: int) -> None:
    found = recorded_lines(job(0, planned(0, 2), planned(1, 5), planned(2, 7)), begins(0), job_end(0), times=times)
    assert (found[JOB].skipped, found[JOB].skipped_tasks, found[JOB].stage_tasks) == ([1, 2], 12, [2, 5, 7])


def test_a_stage_that_is_tried_again_skipped_its_first_attempt_as_in_spark() -> None:
    found = recorded_lines(job(0, planned(0, 2), planned(1, 5)), begins(0), begins(1, attempt=1, tasks=3), job_end(0))
    assert (found[JOB].skipped, found[JOB].skipped_tasks) == ([], 5)
    again = recorded_lines(job(0, planned(0, 2)), begins(0), begins(0, attempt=1), job_end(0))
    assert again[JOB].skipped_tasks == 0


def test_a_job_of_an_earlier_version_has_no_skipped_tasks() -> None:
    found = recorded_lines(job_end(4))["app/job/0000000004"]
    assert (found.status, found.skipped_tasks) == ("SUCCEEDED", 0)
    assert rec.from_value({"kind": "job", "stages": [1, 2]}) == rec.Job(stages=[1, 2])


@pytest.mark.parametrize("times", [1, 2])
def test_copies_of_slow_tasks_are_counted(times: int) -> None:
    found = recorded_lines(
        job(0, planned(0, 3)), begins(0, tasks=3), task(0), task(1, speculative=True), killed(2, "x", speculative=True),
        task(3, speculative=True, **{"Reason": "ExceptionFailure", "Class Name": "E"}), times=times,
    )  # fmt: skip
    assert found[STAGE].speculation == rec.Speculation(tasks=3, failed=1, killed=1)
    assert recorded_lines(job(0, planned(0, 1)), begins(0), task(0))[STAGE].speculation is None


def accumulable(number: int, name: str | None, value: Any = "7", **fields: Any) -> dict[str, Any]:
    return {"ID": number, "Name": name, "Value": value, "Internal": False, "Count Failed Values": False, **fields}


def test_a_stage_has_the_accumulators_of_the_program_only() -> None:
    stage = recorded_lines(
        job(0, planned(0, 2)), begins(0),
        completes(
            accumulable(9, "rows seen"),
            accumulable(3, "data size", Internal=True, Metadata="sql"),
            accumulable(4, "number of output rows", Metadata="sql"),
            accumulable(5, "internal.metrics.executorRunTime", 3),
            accumulable(6, None),
            accumulable(2, "bad lines", "password=hush"),
        ),
    )[STAGE]  # fmt: skip
    assert stage.accumulators == [
        rec.Accumulator(2, "bad lines", "password=*********(redacted)"), rec.Accumulator(9, "rows seen", "7"),
    ]  # fmt: skip
    assert stage.accumulators_left == 0


def test_accumulators_are_bounded_and_the_rest_is_counted() -> None:
    many = [accumulable(number, f"counter {number}", "x" * 900) for number in range(130)]
    stage = recorded_lines(job(0, planned(0, 2)), begins(0), completes(*many))[STAGE]
    assert (len(stage.accumulators), stage.accumulators_left, len(stage.accumulators[0].value)) == (100, 30, 200)


@pytest.mark.parametrize("times", [1, 2])
def test_quantiles_of_metrics_are_those_of_successful_tasks(times: int) -> None:
    sizes = [0, 20, 20, 5_000_000, 5_000_000, 5_000_000, 5_000_000, 80_000_000]
    ran = [task(index, metrics=read_and_wrote(size, 7)) for index, size in enumerate(sizes)]
    failed = task(90, metrics=read_and_wrote(1 << 40, 1 << 40), **{"Reason": "ExceptionFailure", "Class Name": "E"})
    found = recorded_lines(job(0, planned(0, 8)), begins(0, tasks=8), *ran, failed, times=times)
    quantiles = found[STAGE].quantiles
    read = quantiles.shuffle_read_bytes
    assert (read.min, read.p25, read.max) == (0, 20, 80_000_000)
    assert read.median == read.p75 == pytest.approx(5_000_000, rel=0.04)
    assert read.p95 == pytest.approx(80_000_000, rel=0.04)
    assert quantiles.output_bytes == rec.Quantiles(7, 7, 7, 7, 7, 7)
    assert (quantiles.gc_ms, quantiles.spill_disk_bytes) == (None, None)


def test_the_histograms_of_a_stage_that_has_succeeded_are_dropped() -> None:
    ran = [task(index, metrics=read_and_wrote(64, index)) for index in (1, 2)]
    told = [job(0, planned(0, 2)), begins(0), *ran]
    assert recorded_lines(*told)[STAGE].histograms is not None
    stage = recorded_lines(*told, completes(), task(3, metrics=read_and_wrote(64, 90)), times=2)[STAGE]
    assert (stage.tasks, stage.histograms) == (3, None)
    assert stage.quantiles.output_bytes == rec.Quantiles(1, 1, 2, 2, 2, 2)


def test_a_task_of_a_stage_that_has_failed_counts_in_its_quantiles() -> None:
    failed = completes()
    failed["Stage Info"]["Failure Reason"] = "a fetch failed"
    told = [job(0, planned(0, 2)), begins(0), task(1, metrics=read_and_wrote(64, 1)), failed]
    stage = recorded_lines(*told, task(2, metrics=read_and_wrote(64, 9)), times=2)[STAGE]
    assert stage.quantiles.output_bytes == rec.Quantiles(1, 1, 9, 9, 9, 9)


def test_a_task_without_metrics_counts_as_one_that_read_nothing() -> None:
    without = {key: value for key, value in task(1).items() if key != "Task Metrics"}
    found = recorded_lines(job(0, planned(0, 2)), begins(0), task(0, metrics=read_and_wrote(64, 64)), without)
    assert found[STAGE].quantiles.output_bytes == rec.Quantiles(0, 0, 64, 64, 64, 64)


def test_a_stage_that_an_earlier_version_began_has_the_quantiles_of_the_other_tasks() -> None:
    before = rec.from_value({"kind": "stage", "id": 0, "tasks": 3, "buckets": {"10": 3}, "seen": [[0, 2]]})
    assert isinstance(before, rec.Stage)
    assert (before.quantiles, before.histograms) == (None, None)
    found = recorded_lines(task(7, metrics=read_and_wrote(0, 9)), stored={STAGE: rec.to_value(before)})
    assert found[STAGE].quantiles.output_bytes == rec.Quantiles(9, 9, 9, 9, 9, 9)


def test_the_facts_are_columns_also_beside_a_record_of_an_earlier_version() -> None:
    told = recorded_lines(job(0, planned(0, 1)), begins(0, tasks=1), task(0, metrics=read_and_wrote(0, 9)))[STAGE]
    values = [rec.to_value(told), {"kind": "stage", "id": 1}]
    entries = [Entry(STAGE.encode(), "str", msgspec.json.encode(value), "json", False, 1) for value in values]
    columns = ["quantiles", "kill_reasons", "speculation", "accumulators", "rdds", "peaks"]
    ours, earlier = TABLES["spark_stages"].read(entries, columns).to_pylist()
    assert ours["quantiles"]["output_bytes"] == {"min": 9, "p25": 9, "median": 9, "p75": 9, "p95": 9, "max": 9}
    assert (ours["quantiles"]["gc_ms"], ours["kill_reasons"], ours["accumulators"]) == (None, [], [])
    assert earlier == dict.fromkeys(columns)
