"""The commands `kvwal jobs` on many applications, from start to exit."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row
from kvwal.spark import index
from kvwal.spark import records as rec
from kvwal.spark.record_keys import job_key

QUESTION = Question(
    "listing",
    "How long do questions about many Spark applications take?",
    "the command itself with nothing to read, `kvwal jobs --help`.",
    "a first run of each, in which Python caches bytecode. The records are synthetic and written as `kvwal record` writes them: "
    "one node, and for each application its summary, its failures and its jobs, without stages and SQL executions.",
)
DAY = 86_400_000
NOW = 1_790_000_000_000
FAILED_EVERY = 20
"""Of so many applications one failed, with its last job."""


def job(number: int, started: int, failed: bool) -> dict[str, Any]:
    """A job that took a second."""
    error = rec.Error("SparkException: the input is missing", "at org.apache.spark\n" * 60) if failed else None
    record = rec.Job(
        id=number, name="count at report.py:12", description=f"orders of region {number % 7}", status="FAILED" if failed else
        "SUCCEEDED", started=started, ended=started + 1_000, duration_ms=1_000, planned=8, stages=[number], ran=[number], tasks=8,
        input_rows=100_000, input_bytes=4_000_000, run_ms=4_000, cpu_ms=3_500.5, error=error,
    )  # fmt: skip
    return rec.to_value(record)


def application(number: int, jobs: int, started: int) -> dict[str, Any]:
    """The records of one application and its index, by key."""
    prefix, failed = f"application_{NOW}_{number:06d}", number % FAILED_EVERY == 0
    ended = started + jobs * 1_000
    app = rec.Application(
        id=prefix, name=f"report-{number % 200}", user="ada", spark_version="4.3.0", status="FAILED" if failed else "SUCCEEDED",
        status_from="python", started=started, ended=ended, duration_ms=ended - started, last_event=ended, jobs=jobs,
        jobs_failed=int(failed), stages=jobs, tasks=8 * jobs, input_rows=100_000 * jobs, run_ms=4_000 * jobs,
        exit_code=int(failed), error=rec.Error("RuntimeError: no report today") if failed else None,
    )  # fmt: skip
    records = {f"{prefix}/app": rec.to_value(app)}
    for each in range(jobs):
        records[job_key(prefix, each)] = job(each, started + each * 1_000, failed and each == jobs - 1)
    return records | index.index_entries(records)


def write(root: Path, applications: int, jobs: int, large: int) -> None:
    """A store with so many applications of the last 100 days, and one of `large` jobs."""
    with kvwal.open(root, archive=None, flush="os") as store:
        records = store.map("spark")
        records.put_many(index.mark_of(records, store.node or ""))
        step = 100 * DAY // applications
        for number in range(applications):
            records.put_many(application(number, jobs, NOW - (applications - number) * step))
        big = list(application(applications + 1, large, NOW - large * 1_000).items())
        for first in range(0, len(big), 2_000):
            records.put_many(dict(big[first : first + 2_000]))
        store.checkpoint()


def seconds_of(*arguments: str) -> float:
    """The processor seconds of a command of kvwal, from start to exit."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [str(Path(sys.executable).with_name("kvwal")), *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(run: Run) -> list[Row]:
    """A row for each question, in seconds of processor time."""
    few, many, root = run.root(), run.size(10_000, 20), run.root()
    large = run.size(10_000, 30)
    write(few, run.size(2_600, 10), run.size(100, 2), 2)
    write(root, many, run.size(100, 2), large)
    since = time.strftime("%Y-%m-%d", time.gmtime((NOW - DAY) / 1_000))
    questions: dict[str, tuple[float, list[str]]] = {
        "2,600 applications with 260,000 jobs": (1, [str(few)]),
        "10,000 applications with 1M jobs": (2, [str(root)]),
        "all 10,000 applications, --limit 0": (2, [str(root), "--limit", "0"]),
        "one application of 10,000 jobs": (1, [str(root), f"application_{NOW}_{many + 1:06d}"]),
        "failures of the last day among 10,000 applications": (1, [str(root), "--failed", "--since", since]),
    }
    rows = []
    for name, (target, arguments) in questions.items():
        seconds_of("jobs", *arguments)
        baselines, ours = run.interleave(
            5, lambda: seconds_of("jobs", "--help"), lambda given=arguments: seconds_of("jobs", *given)
        )
        rows.append(absolute_row(name, "s of processor time", baselines, ours, "at most", target))
    return rows
