"""A real application with a recorder in its driver and a follower of its event log, in both orders: each event counts once."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast
from tests.support.polling import until
from tests.support.programs.recorded import LATER, POINTS
from tests.support.recording.follow_command import follow_command
from tests.support.recording.spark_driver import check, spark_driver

pytestmark = [needs_hazelcast, pytest.mark.long]


@pytest.fixture
def location(node: Node) -> str:
    return f"kvwal://{node.address}"


@contextmanager
def follower(location: str, folder: Path) -> Iterator[None]:
    """A follower of the event log of the application, which ends in order at the end of the block."""
    logs = folder / "out" / "logs"
    logs.mkdir(parents=True)
    with (folder / "follower").open("w") as said:
        process = subprocess.Popen(follow_command(location, logs, "--cluster", CLUSTER), stderr=said)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, (folder / "follower").read_text()[-4_000:]
    finally:
        process.kill()
        process.wait()


@contextmanager
def records(node: Node) -> Iterator[Any]:
    with kvwal.connect(node.address, cluster=CLUSTER) as store:
        yield store.map("spark")


@pytest.mark.parametrize("point", ["during a job", "at the end"])
def test_a_recorder_that_is_killed_is_finished_by_a_follower(
    node: Node, location: str, tmp_path: Path, point: str
) -> None:
    """The follower takes the application when the recorder's lease has run out. The spool is read afterwards."""
    with follower(location, tmp_path), records(node) as stored:
        with spark_driver(location, tmp_path) as ran:
            for at in POINTS:
                ran.reach(at)
                if at == point:
                    break
                ran.go_on()
            until(lambda: f"{ran.app}/recorder" in stored or None)
            until(lambda: "its event log is left alone" in (tmp_path / "follower").read_text() or None)
            holder = stored[f"!lease/{ran.app}"]["holder"]
            ran.kill()
        until(lambda: stored[f"!lease/{ran.app}"]["holder"] != holder or None)
    check(ran, was_killed=True)


def test_a_recorder_that_starts_after_a_follower_takes_the_application(
    node: Node, location: str, tmp_path: Path
) -> None:
    """It starts in the middle of a job. The follower reads the event log to its end when the recorder has ended."""
    with follower(location, tmp_path), records(node) as stored:
        with spark_driver(location, tmp_path, "later") as ran:
            ran.reach(LATER)
            until(lambda: f"{ran.app}/log" in stored or None)
            holder = stored[f"!lease/{ran.app}"]["holder"]
            ran.go_on()
            ran.reach(POINTS[0])
            until(lambda: f"{ran.app}/recorder" in stored or None)
            assert stored[f"!lease/{ran.app}"]["holder"] != holder
            ran.go_on()
            for at in POINTS[1:]:
                ran.reach(at)
                ran.go_on()
            assert ran.end()["failure"] is None
        until(lambda: stored[f"{ran.app}/log"]["complete"] or None)
    check(ran, is_later=True)
