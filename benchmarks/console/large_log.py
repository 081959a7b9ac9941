"""The event log of an application of very many jobs, as Spark writes it, with the fields that a History Server needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STAGES = 10
"""Stages of each job."""
APP = "local-1795237371242"
_BEGUN = 1_795_237_368_897
_JOB_MS, _STAGE_MS = 1_000, 90
_RUN_MS = 70


def write_log(path: Path, jobs: int) -> int:
    """Write an application's log with this number of jobs: a job has ten stages, and a stage one task. Returns its bytes."""
    with path.open("wb") as file:
        for event in _events(jobs):
            file.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
    return path.stat().st_size


def _events(jobs: int) -> Iterator[dict[str, Any]]:
    yield {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"}
    yield {
        "Event": "SparkListenerExecutorAdded", "Timestamp": _BEGUN + 1, "Executor ID": "driver", "Executor Info": {
            "Host": "localhost", "Total Cores": 2, "Log Urls": {}, "Attributes": {}, "Resources": {}, "Resource Profile Id": 0,
        },
    }  # fmt: skip
    yield {
        "Event": "SparkListenerApplicationStart", "App Name": "ten thousand jobs", "App ID": APP, "Timestamp": _BEGUN,
        "User": "ada",
    }  # fmt: skip
    yield {
        "Event": "SparkListenerEnvironmentUpdate", "JVM Information": {"Java Version": "21"},
        "Spark Properties": {"spark.app.id": APP}, "Hadoop Properties": {}, "System Properties": {},
        "Metrics Properties": {}, "Classpath Entries": {},
    }  # fmt: skip
    for job in range(jobs):
        yield from _job(job, _BEGUN + 1_000 + job * _JOB_MS)
    yield {"Event": "SparkListenerApplicationEnd", "Timestamp": _BEGUN + 2_000 + jobs * _JOB_MS}


def _job(job: int, at: int) -> Iterator[dict[str, Any]]:
    """The events of a job. Its stages run one after the other."""
    stages = [_stage(job * STAGES + each, each) for each in range(STAGES)]
    yield {
        "Event": "SparkListenerJobStart", "Job ID": job, "Submission Time": at, "Stage Infos": stages,
        "Stage IDs": [stage["Stage ID"] for stage in stages], "Properties": {"spark.job.description": f"load part {job}"},
    }  # fmt: skip
    for each, stage in enumerate(stages):
        yield from _run(stage, at + each * _STAGE_MS)
    end = {"Result": "JobSucceeded"}
    yield {"Event": "SparkListenerJobEnd", "Job ID": job, "Completion Time": at + STAGES * _STAGE_MS, "Job Result": end}


def _stage(number: int, place: int) -> dict[str, Any]:
    """A stage, whose parent is the one before it in the job."""
    return {
        "Stage ID": number, "Stage Attempt ID": 0, "Stage Name": f"load at load.py:{10 + place}", "Number of Tasks": 1,
        "RDD Info": [], "Parent IDs": [number - 1] if place else [], "Details": "", "Accumulables": [], "Resource Profile Id": 0,
        "Shuffle Push Enabled": False, "Shuffle Push Mergers Count": 0,
    }  # fmt: skip


def _run(stage: dict[str, Any], at: int) -> Iterator[dict[str, Any]]:
    """The events of a stage that runs, and of its task."""
    number, begun, ended = stage["Stage ID"], at + 5, at + _STAGE_MS - 5
    submitted = {**stage, "Submission Time": at}
    yield {"Event": "SparkListenerStageSubmitted", "Stage Info": submitted, "Properties": {}}
    task = {
        "Task ID": number, "Index": 0, "Attempt": 0, "Partition ID": 0, "Launch Time": begun, "Executor ID": "driver",
        "Host": "localhost", "Locality": "PROCESS_LOCAL", "Speculative": False, "Getting Result Time": 0, "Finish Time": 0,
        "Failed": False, "Killed": False, "Accumulables": [],
    }  # fmt: skip
    yield {"Event": "SparkListenerTaskStart", "Stage ID": number, "Stage Attempt ID": 0, "Task Info": task}
    yield {
        "Event": "SparkListenerTaskEnd", "Stage ID": number, "Stage Attempt ID": 0, "Task Type": "ResultTask",
        "Task End Reason": {"Reason": "Success"}, "Task Info": {**task, "Finish Time": ended}, "Task Executor Metrics": {},
        "Task Metrics": _metrics(number),
    }  # fmt: skip
    yield {"Event": "SparkListenerStageCompleted", "Stage Info": {**submitted, "Completion Time": at + _STAGE_MS}}


def _metrics(number: int) -> dict[str, Any]:
    return {
        "Executor Deserialize Time": 2, "Executor Deserialize CPU Time": 2_000_000, "Executor Run Time": _RUN_MS,
        "Executor CPU Time": 60_000_000, "Peak Execution Memory": 0, "Result Size": 1_000, "JVM GC Time": 1,
        "Result Serialization Time": 0, "Memory Bytes Spilled": 0, "Disk Bytes Spilled": 0,
        "Shuffle Read Metrics": {
            "Remote Blocks Fetched": 0, "Local Blocks Fetched": 1, "Fetch Wait Time": 0, "Remote Bytes Read": 0,
            "Remote Bytes Read To Disk": 0, "Local Bytes Read": 100, "Total Records Read": 10, "Remote Requests Duration": 0,
        },
        "Shuffle Write Metrics": {"Shuffle Bytes Written": 100, "Shuffle Write Time": 10_000, "Shuffle Records Written": 10},
        "Input Metrics": {"Bytes Read": 1_000 + number % 100, "Records Read": 10},
        "Output Metrics": {"Bytes Written": 0, "Records Written": 0}, "Updated Blocks": [],
    }  # fmt: skip
