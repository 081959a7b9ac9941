"""Event logs of applications that never ran: small, with every count known."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lz4.block
import pyarrow as pa
import zstandard

TASKS = 2
"""Tasks of each job."""
CODECS = ("plain", "gzip", "zstd", "lz4", "snappy")
SUFFIXES = {"plain": "", "gzip": ".gz", "zstd": ".zstd", "lz4": ".lz4", "snappy": ".snappy"}


def event_log(
    app: str, jobs: int, *, ended: bool = True, first: int = 0, name: str = "a test", started: int = 1_000
) -> bytes:
    """The event log of an application with `jobs` jobs of one stage and `TASKS` tasks each, numbered from `first`."""
    events = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
        {"Event": "SparkListenerApplicationStart", "App Name": name, "App ID": app, "Timestamp": started, "User": "me"},
        {"Event": "SparkListenerEnvironmentUpdate", "JVM Information": {}, "Spark Properties": {"spark.app.id": app}},
    ]
    for job in range(first, first + jobs):
        events += job_events(job, started)
    if ended:
        events.append({"Event": "SparkListenerApplicationEnd", "Timestamp": started + 1_000 + 100 * jobs})
    return lines(*events)


def job_events(job: int, started: int = 1_000) -> Iterator[dict[str, Any]]:
    """The events of one job that succeeds, of an application that began at `started`."""
    at = started + 100 * job
    stage = {"Stage ID": job, "Stage Attempt ID": 0, "Stage Name": "collect", "Number of Tasks": TASKS}
    yield {
        "Event": "SparkListenerJobStart", "Job ID": job, "Submission Time": at, "Stage IDs": [job], "Stage Infos": [stage],
        "Properties": {"spark.job.description": f"job {job}"},
    }  # fmt: skip
    yield {"Event": "SparkListenerStageSubmitted", "Stage Info": {**stage, "Submission Time": at}}
    for task in range(TASKS):
        yield {
            "Event": "SparkListenerTaskEnd", "Stage ID": job, "Stage Attempt ID": 0, "Task End Reason": {"Reason": "Success"},
            "Task Info": {"Task ID": job * TASKS + task, "Index": task, "Attempt": 0, "Launch Time": at, "Finish Time": at + 10},
            "Task Metrics": {"Executor Run Time": 7, "Input Metrics": {"Bytes Read": 1_000, "Records Read": 10}},
        }  # fmt: skip
    yield {
        "Event": "SparkListenerStageCompleted",
        "Stage Info": {**stage, "Submission Time": at, "Completion Time": at + 20},
    }
    result = {"Result": "JobSucceeded"}
    yield {"Event": "SparkListenerJobEnd", "Job ID": job, "Completion Time": at + 30, "Job Result": result}


def lines(*events: dict[str, Any]) -> bytes:
    """Events as the lines of a log."""
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


def compressed(text: bytes, codec: str, block_bytes: int = 32 << 10) -> bytes:
    """The bytes as Spark's codecs and gzip frame them; a prefix of `text` gives a prefix of the frames, but for the last one."""
    blocks = [text[at : at + block_bytes] for at in range(0, len(text), block_bytes)]
    if codec == "plain":
        return text
    if codec == "gzip":
        return b"".join(gzip.compress(block) for block in blocks)
    if codec == "zstd":
        return b"".join(zstandard.ZstdCompressor().compress(block) for block in blocks)
    if codec == "lz4":
        return b"".join(_lz4_block(block) for block in blocks)
    packed = [pa.compress(block, codec="snappy", asbytes=True) for block in blocks]
    return b"\x82SNAPPY\x00" + bytes(8) + b"".join(len(block).to_bytes(4, "big") + block for block in packed)


def _lz4_block(block: bytes) -> bytes:
    """A block as lz4-java frames it."""
    packed = lz4.block.compress(block, store_size=False)
    token = b"\x26"
    if len(packed) >= len(block):
        packed, token = block, b"\x16"
    sizes = len(packed).to_bytes(4, "little") + len(block).to_bytes(4, "little")
    return b"LZ4Block" + token + sizes + bytes(4) + packed


def write_rolling(folder: Path, app: str, rolls: list[bytes], *, in_progress: bool) -> Path:
    """A folder of rolled files, numbered from 1, with Spark's mark of the state."""
    log = folder / f"eventlog_v2_{app}"
    log.mkdir(exist_ok=True)
    for number, text in enumerate(rolls, 1):
        (log / f"events_{number}_{app}").write_bytes(text)
    (log / f"appstatus_{app}").unlink(missing_ok=True)
    (log / f"appstatus_{app}.inprogress").unlink(missing_ok=True)
    (log / f"appstatus_{app}{'.inprogress' if in_progress else ''}").touch()
    return log


def counts(records: Any, app: str) -> tuple[str, int, int, int]:
    """Of an application in a map of records: its status, its jobs as it counts them, its tasks, and the jobs that are there."""
    found = records[f"{app}/app"]
    jobs = [key for key in records if key.startswith(f"{app}/job/")]
    return found["status"], found["jobs"], found["tasks"], len(jobs)
