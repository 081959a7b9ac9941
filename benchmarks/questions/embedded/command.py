"""The command `kvwal get` as a process, from start to exit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import kvwal
from benchmarks.harness import Question, Row, Run, ratio_row

QUESTION = Question(
    "command",
    "How long does `kvwal get` take?",
    "the interpreter itself, `python -c pass`.",
    "a first run of each, in which Python caches bytecode, as pip does at installation.",
)


def seconds_of(command: list[str]) -> float:
    """The seconds of a command, from start to exit."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment())
    return time.perf_counter() - started


def environment() -> dict[str, str]:
    """The environment of this process, with Python's default caching of bytecode."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(run: Run) -> list[Row]:
    """One row: milliseconds beside those of the interpreter."""
    root = run.root()
    with kvwal.open(root, archive=None) as store:
        store.map("jobs").put_many({f"job-{number}": {"state": "RUNNING", "stages": number} for number in range(100)})
    kvwal_get = [str(Path(sys.executable).with_name("kvwal")), "get", str(root), "jobs", "job-7"]
    seconds_of(kvwal_get)
    baselines, ours = run.interleave(
        25, lambda: seconds_of([sys.executable, "-c", "pass"]) * 1000, lambda: seconds_of(kvwal_get) * 1000
    )
    return [ratio_row("kvwal get on a small root", "ms", baselines, ours, "at most", 8)]
