"""The recorder into three members, killed at random moments: each event counts once. A stand-in writes the events of Spark."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.client.store import ClusterMap
from kvwal.spark.recording import recorder
from kvwal.spark.recording.recorder import JobRecorder
from kvwal.spark.recording.spool import Spool, add_roll, spools
from tests.support.chance import new_seed
from tests.support.cli import kvwal as command
from tests.support.cluster.nodes import CLUSTER, Cluster, needs_hazelcast
from tests.support.event_logs import TASKS, counts, job_events
from tests.support.polling import until
from tests.support.recording.driver import Driver, Listener
from tests.support.recording.same_records import application_records
from tests.support.spark import environment

pytestmark = [needs_hazelcast, pytest.mark.long]
ROOT = Path(__file__).resolve().parent.parent.parent.parent
APP = "app-1"
JOBS = 200
"""Jobs that are written at once: their records are about as large as a transaction may be."""
PARTS = 5
"""One while each member is killed, one while all are, and one while none is there."""


@pytest.fixture
def records(members: Cluster) -> Iterator[ClusterMap]:
    """The map of the records, empty."""
    with kvwal.connect(members.addresses, cluster=CLUSTER) as store:
        found = store.map("spark")
        found.clear()
        yield found


class DriverProcess:
    """A recorder of a stand-in for Spark in a process of its own."""

    def __init__(self, members: Cluster, spool: Path) -> None:
        words = [sys.executable, "-m", "tests.support.programs.recorder", members.addresses, str(spool)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(ROOT), cwd=spool
        )

    def write_job(self) -> int:
        """Let one more job be written; the number of the last one that surely was."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def driver_process(members: Cluster, spool: Path) -> Iterator[DriverProcess]:
    """A driver that records into `members`, and is killed at the end of the block."""
    driver = DriverProcess(members, spool)
    try:
        yield driver
    finally:
        driver.process.kill()
        driver.process.communicate()


def begin(store: Any, *, spark: Any = None, **options: Any) -> tuple[JobRecorder, Any]:
    """A recorder that has begun, and the listener of its stand-in for Spark."""
    started = JobRecorder(spark, store, **options).start()
    driver: Any = started._driver
    return started, driver.listener


def reach(records: ClusterMap, count: int) -> None:
    """Wait until so many records are stored."""
    until(lambda: len(records) >= count or None)


def test_members_that_are_killed_while_a_recorder_delivers(
    members: Cluster, records: ClusterMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each member in turn, and then all at once, at some number of records that are stored. More events come meanwhile."""
    monkeypatch.setattr(recorder, "Driver", Driver)
    chance = random.Random(new_seed())
    location = members.location
    recording, listener = begin(location, cluster=CLUSTER, spool=tmp_path, timeout=5.0)
    others, other = begin(tmp_path / "root", archive=None)
    parts = [
        [event for job in range(part * JOBS, (part + 1) * JOBS) for event in job_events(job)] for part in range(PARTS)
    ]
    other.write(*chain.from_iterable(parts))
    for node, events in zip((*members.nodes, None), parts, strict=False):
        enough = len(records) + chance.randrange(1, 2 * JOBS)
        listener.write(*events)
        reach(records, enough)
        if node is not None:
            members.restart(node)
    members.kill()
    listener.write(*parts[-1])
    until(lambda: recording.stats()["waiting"])
    members.start()
    until(lambda: recording.stats()["events"] >= sum(map(len, parts)) or None)
    for started in (recording, others):
        started.close()
        assert started.failure is None
    assert recording.stats()["troubles"] > 0
    with kvwal.open(tmp_path / "root", read_only=True) as store:
        expected = application_records(dict(store.map("spark").items()), APP)
    recorded = application_records(dict(records.items()), APP)
    assert recorded.keys() == expected.keys()
    for found in (recorded, expected):  # the recorders were closed one after the other
        del found[f"{APP}/app"]["ended"], found[f"{APP}/app"]["duration_ms"]
    assert [key for key in expected if recorded[key] != expected[key]] == []
    assert counts(expected, APP) == ("DETACHED", PARTS * JOBS, PARTS * JOBS * TASKS, PARTS * JOBS)
    assert not (tmp_path / "_spark").exists()


def test_the_next_recorder_on_the_machine_delivers_what_a_killed_driver_left(
    members: Cluster, records: ClusterMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another application, once, and while that recorder goes on. What another cluster's driver left stays."""
    monkeypatch.setattr(recorder, "Driver", Driver)
    options: dict[str, Any] = {"cluster": CLUSTER, "spool": tmp_path, "timeout": 5.0}
    with driver_process(members, tmp_path) as driver:
        for _ in range(50):
            written = driver.write_job()
        reach(records, 20)
    elsewhere = Spool(tmp_path, "default", CLUSTER, "app-3")
    elsewhere.make()
    elsewhere.name_addresses(["elsewhere:5701"])
    add_roll(Listener(elsewhere.folder, "app-3", 1_000).log, 1, job_events(0))
    recording, listener = begin(members.location, spark="app-2", **options)
    listener.write(*job_events(0))
    until(lambda: counts(records, APP)[0] == "KILLED" or None)
    assert recording.recording
    until(lambda: "app-2/app" in records or None)
    recording.close()
    assert recording.failure is None
    status, jobs, tasks, there = counts(records, APP)
    assert (status, tasks, there) == ("KILLED", jobs * TASKS, jobs)
    assert jobs in (written + 1, written + 2)
    assert counts(records, "app-2") == ("DETACHED", 1, TASKS, 1)
    assert "app-3/app" not in records
    assert [spool.node for spool in spools(tmp_path)] == ["app-3"]


@pytest.mark.parametrize("lost", ["the driver", "the driver and a member", "the driver and all members"])
def test_a_driver_that_is_killed_at_any_moment(
    members: Cluster, records: ClusterMap, tmp_path: Path, lost: str
) -> None:
    """What its spool has left is recorded by `kvwal record`, once."""
    chance = random.Random(new_seed())
    with driver_process(members, tmp_path) as driver:
        for _ in range(chance.randrange(20, 120)):
            written = driver.write_job()
        reach(records, chance.randrange(1, written))
        if lost == "the driver and a member":
            members.nodes[chance.randrange(3)].kill()
    if lost == "the driver and all members":
        members.kill()
    members.start()
    names = ("--cluster", CLUSTER, "--spool", tmp_path)
    assert command("record", members.location, *names).code == 0
    assert command("record", members.location, *names).code == 2
    status, jobs, tasks, there = counts(records, APP)
    assert (status, tasks, there) == ("KILLED", jobs * TASKS, jobs)
    assert jobs in (written + 1, written + 2)  # the next one may be written, and its number was not read
    assert {value["status"] for key, value in records.items() if value["kind"] in ("job", "stage")} == {"SUCCEEDED"}
