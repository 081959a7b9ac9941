"""Followers of one cluster that are killed, and members that are killed under them: each event counts once."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.client.store import ClusterMap
from kvwal.spark import record_event_logs
from tests.support.chance import new_seed
from tests.support.cluster.nodes import CLUSTER, Cluster, needs_hazelcast
from tests.support.event_logs import event_log, job_events, lines
from tests.support.polling import until
from tests.support.recording.follow_command import follow_command
from tests.support.recording.same_records import application_records

pytestmark = [needs_hazelcast, pytest.mark.long]
APPLICATIONS = ("app-1", "app-2", "app-3")
JOBS = 120
"""Jobs of each application that are written at once: their records are several transactions."""


class Followers:
    """Followers of one folder, as processes."""

    def __init__(self, members: Cluster, folder: Path, count: int) -> None:
        self._words = follow_command(members.location, folder / "logs", "--cluster", CLUSTER)
        self._said = [folder / f"stderr-{number}" for number in range(count)]
        """What the follower in each place has said."""
        self.running = [self._start(number) for number in range(count)]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        with self._said[number].open("wb") as errors:
            return subprocess.Popen(self._words, stdout=subprocess.DEVNULL, stderr=errors)

    def replace(self, number: int) -> None:
        """Kill -9 one, and start another in its place."""
        self.running[number].kill()
        self.running[number].wait()
        self.running[number] = self._start(number)

    def stop(self) -> None:
        """End all of them in order, also one that was started just now: SIGTERM ends it so once it says that it follows."""
        for process, said in zip(self.running, self._said, strict=True):
            until(lambda said=said: b"following event logs" in said.read_bytes() or None)  # type: ignore[misc]
            process.send_signal(signal.SIGTERM)
        for process, said in zip(self.running, self._said, strict=True):
            assert process.wait() == 0, said.read_text()[-2_000:]


@contextmanager
def following(members: Cluster, folder: Path, count: int) -> Iterator[tuple[Followers, ClusterMap]]:
    """Followers of the folder's logs, and the map that they record into."""
    (folder / "logs").mkdir()
    with kvwal.connect(members.addresses, cluster=CLUSTER) as store:
        records = store.map("spark")
        records.clear()
        followers = Followers(members, folder, count)
        try:
            yield followers, records
        finally:
            for process in followers.running:
                process.kill()
                process.wait()


def write(folder: Path, number: int) -> None:
    """Write the `number`-th part of each log. The first one begins the logs."""
    for app in APPLICATIONS:
        with (folder / "logs" / f"{app}.inprogress").open("ab") as log:
            if number == 0:
                log.write(event_log(app, JOBS, ended=False))
            else:
                log.write(
                    lines(*(event for job in range(number * JOBS, (number + 1) * JOBS) for event in job_events(job)))
                )


def reach(records: ClusterMap, count: int) -> None:
    """Wait until the followers have stored so many records."""
    until(lambda: len(records) >= count or None)


def finish(folder: Path) -> None:
    """End the applications, as Spark does it."""
    for app in APPLICATIONS:
        log = folder / "logs" / f"{app}.inprogress"
        with log.open("ab") as file:
            file.write(lines({"Event": "SparkListenerApplicationEnd", "Timestamp": 1_000_000}))
        log.rename(log.with_suffix(""))


def check(folder: Path, followers: Followers, records: ClusterMap) -> None:
    """When all logs are read to their end, the records are those that a plain `kvwal record` makes."""
    for app in APPLICATIONS:
        until(lambda key=f"{app}/log": (records.get(key) or {"complete": False})["complete"] or None)  # type: ignore[misc]
    followers.stop()
    with kvwal.open(folder / "by-log", archive=None, flush="os") as store:
        record_event_logs(store, [folder / "logs"])
        expected: Any = dict(store.map("spark").items())
    recorded = dict(records.items())
    for app in APPLICATIONS:
        ours, theirs = application_records(recorded, app), application_records(expected, app)
        assert ours.keys() == theirs.keys()
        assert [key for key in theirs if ours[key] != theirs[key]] == []
        assert theirs[f"{app}/app"]["status"] == "SUCCEEDED"


@pytest.mark.parametrize("count", [1, 2])
def test_followers_that_are_killed_at_any_moment(members: Cluster, tmp_path: Path, whole: bool, count: int) -> None:
    """A part of the logs is written, and at some number of records one follower is killed."""
    chance = random.Random(new_seed())
    with following(members, tmp_path, count) as (followers, records):
        parts = 3 if whole else 1
        for part in range(parts):
            enough = len(records) + chance.randrange(1, 2 * JOBS * len(APPLICATIONS))
            write(tmp_path, part)
            reach(records, enough)
            followers.replace(chance.randrange(count))
        finish(tmp_path)
        check(tmp_path, followers, records)


def test_members_that_are_killed_under_two_followers(members: Cluster, tmp_path: Path) -> None:
    """Each member in turn, and then all at once."""
    chance = random.Random(new_seed())
    with following(members, tmp_path, 2) as (followers, records):
        for part, node in enumerate([*members.nodes, None]):
            enough = len(records) + chance.randrange(1, 2 * JOBS * len(APPLICATIONS))
            write(tmp_path, part)
            reach(records, enough)
            members.restart(node)
        finish(tmp_path)
        check(tmp_path, followers, records)
