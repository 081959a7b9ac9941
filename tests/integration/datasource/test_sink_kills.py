"""Drivers and executors that are killed while they write: run again, all rows are there, and each epoch counts once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ConfigError
from kvwal.log.files.names import OVERFLOW
from kvwal.spark.state.records import PREFIX
from tests.repository.source import ROOT
from tests.support.datasource.sink import ROWS
from tests.support.spark import environment

pytestmark = pytest.mark.long
KILLS = 10
LOOK_SECONDS = 0.05
"""Between two looks at a driver: a transaction takes about as long."""
SETTLED_SECONDS = 1.0
"""A file that was written so long before a look has not changed since: the times of files come in steps of milliseconds."""


def begin(kind: str, store: str, folder: Path) -> subprocess.Popen[str]:
    """A driver in a process of its own."""
    words = [sys.executable, "-m", "tests.support.datasource.sink", kind, store, str(folder)]
    with (folder / "driver.log").open("a") as log:
        return subprocess.Popen(words, stdout=log, stderr=log, text=True, env=environment(ROOT), cwd=folder)


def run(kind: str, store: str, folder: Path) -> None:
    driver = begin(kind, store, folder)
    assert driver.wait() == 0, (folder / "driver.log").read_text()[-3000:]


def descendants(pid: int) -> list[int]:
    """A process and all that it started, and they."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def signal_all(driver: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to the driver, its JVM and its Pythons."""
    for pid in descendants(driver.pid):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def last_change(root: Path) -> float:
    """The time of the last write to a file of the root, 0 for none."""
    times = [0.0]
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):  # the driver removes files meanwhile
            times.append(path.stat().st_mtime)
    return max(times)


def kill_when(driver: subprocess.Popen[str], root: Path, is_time: Callable[[], bool]) -> bool:
    """Kill -9 the driver when it is time; it stands still while the test looks. Returns False if it ended before.

    The test looks only while files of the root change: a look at an open store costs as much as the driver has to do meanwhile.
    """
    looked = -SETTLED_SECONDS
    while True:
        try:
            driver.wait(LOOK_SECONDS)
            return False
        except subprocess.TimeoutExpired:
            if last_change(root) < looked - SETTLED_SECONDS:
                continue
            signal_all(driver, signal.SIGSTOP)
        looked = time.time()
        if is_time():
            signal_all(driver, signal.SIGKILL)
            driver.wait()
            return True
        signal_all(driver, signal.SIGCONT)


def epoch_of(root: Path) -> int:
    """The last epoch whose rows are there, -1 for none."""
    try:
        with kvwal.open(root, read_only=True) as store:
            return max((mark.get("epoch", 0) for _, mark in store.map("jobs").scan(PREFIX)), default=-1)
    except ConfigError:  # the business is not there yet
        return -1


def has_reached(root: Path, epoch: int) -> bool:
    return epoch_of(root) >= epoch


def rows(root: Path) -> dict[str, Any]:
    with kvwal.open(root, read_only=True) as store:
        return {key: value for key, value in store.map("jobs").items() if not key.startswith(PREFIX)}


def changes(root: Path) -> dict[str, int]:
    with kvwal.open(root, read_only=True) as store:
        jobs = store.map("jobs")
        return {key: len(jobs.history(key)) for key in jobs if not key.startswith(PREFIX)}


def test_a_driver_that_is_killed_while_it_writes_leaves_all_of_its_rows_or_none(tmp_path: Path) -> None:
    root = tmp_path / "root"

    def is_writing() -> bool:
        return any(root.rglob(f"{OVERFLOW}/*"))

    assert kill_when(begin("batch", str(root), tmp_path), root, is_writing)
    found = len(rows(root))
    assert found in (0, ROWS)
    run("batch", str(root), tmp_path)
    with kvwal.open(root, read_only=True) as store:
        jobs = store.map("jobs")
        assert (len(jobs), jobs["job-7"]) == (ROWS, {"v": "x" * 180})
        assert [key for key, _ in jobs.scan(PREFIX)] == []
        assert {len(jobs.history(f"job-{number}")) for number in range(0, ROWS, 1000)} == {2 if found else 1}


def test_an_executor_that_is_killed_loses_no_row_and_doubles_none(tmp_path: Path) -> None:
    run("executors", str(tmp_path / "root"), tmp_path)
    found = changes(tmp_path / "root")
    assert (len(found), set(found.values())) == (4000, {1})
    assert not [path for path in (tmp_path / "root" / "_staging").rglob("*") if path.is_file()]


def test_a_stream_from_store_to_store_that_is_killed_ten_times_writes_each_change_once(tmp_path: Path) -> None:
    root, count, chance = tmp_path / "root", 600, random.Random(14)
    numbers = range(1, count + 1)
    with kvwal.open(tmp_path / "in") as source:
        for number in numbers:  # it is the sequence, too
            source.map("jobs").put(f"job-{number % 50}", {"n": number})
    kills = 0
    for _ in range(KILLS):
        enough = epoch_of(root) + chance.randrange(1, 3)
        kills += kill_when(begin("stream", str(root), tmp_path), root, partial(has_reached, root, enough))
    assert kills == KILLS
    run("stream", str(root), tmp_path)
    assert changes(root) == {f"job-{number % 50}-{number}": 1 for number in numbers}
    assert rows(root) == {f"job-{number % 50}-{number}": {"n": number} for number in numbers}
