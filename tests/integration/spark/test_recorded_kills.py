"""A recorded application while its driver, members of its cluster, or the links between them are lost: each event counts once.

The application stops at named points (`tests.support.programs.recorded`). Its own event log, read into a root by a plain
`kvwal record`, says what must be recorded; `test_truth` holds that against Spark's REST API.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.spark import record_event_logs
from kvwal.spark.tables.catalogue import TABLES
from tests.support.cli import kvwal as command
from tests.support.cluster.network import Network, missing, networked
from tests.support.cluster.nodes import CLUSTER, Cluster, needs_hazelcast
from tests.support.programs.recorded import POINTS
from tests.support.recording.one_sided import differences
from tests.support.recording.same_records import application_records
from tests.support.spark import environment

pytestmark = [needs_hazelcast, pytest.mark.long]
ROOT = Path(__file__).resolve().parent.parent.parent.parent
SETTINGS = {"spark_settings": "AND scope = 'spark'"}
CUT_SECONDS = 3.0
"""For each of three members; a call of the recorder of this application gives up after 5."""


class Driver:
    """The application as a process group of its own."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, location: str) -> None:
        self.folder = folder
        self.location = location
        self.spool = folder / "spool"
        self._process = process
        self.app = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (self.folder / "stderr").read_text()[-4_000:]
        return line.strip()

    def reach(self, point: str) -> None:
        """Wait until the application stands at a point."""
        assert self._line() == point

    def go_on(self) -> None:
        """Let the application go on from the point where it stands."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill -9 its Python, its JVM and their workers."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> dict[str, Any]:
        """Wait for its end; what its recorder's `stats` said last."""
        stats: dict[str, Any] = json.loads(self._line())
        assert self._process.wait() == 0
        return stats


@contextmanager
def driver(members: Cluster, folder: Path) -> Iterator[Driver]:
    """The application, recorded into the cluster."""
    words = [
        sys.executable,
        "-m",
        "tests.support.programs.recorded",
        members.location,
        str(folder / "spool"),
        str(folder / "out"),
    ]
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment(ROOT),
            cwd=folder, start_new_session=True,
        )  # fmt: skip
    try:
        yield Driver(process, folder, members.location)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def check(ran: Driver, *, was_killed: bool = False) -> None:
    """What the spool has left goes into the cluster, and then its records are those of Spark's event log, in every table too."""
    names = ("--cluster", CLUSTER)
    finished = command("record", ran.location, *names, "--spool", ran.spool)
    assert finished.code == 0 or "No driver left anything" in finished.err, finished.err
    assert command("record", ran.location, *names, "--spool", ran.spool).code == 2
    root = ran.folder / "by-log"
    with kvwal.open(root, archive=None, flush="os") as store:
        record_event_logs(store, [ran.folder / "out" / "logs"])
        log = application_records(store.map("spark"), ran.app)
    with kvwal.connect(ran.location.removeprefix("kvwal://"), cluster=CLUSTER) as store:
        live = application_records(dict(store.map("spark").items()), ran.app)
    assert differences(live, log, was_killed=was_killed) == []
    assert len({value["kind"] for value in live.values()}) > (2 if was_killed else 5)
    for table in TABLES:
        # Of the settings of the JVM the recorder asks for some, and Spark writes all.
        asked = f"SELECT key FROM {table} WHERE app = '{ran.app}' {SETTINGS.get(table, '')} ORDER BY ALL"
        there, here = (
            command("query", place, asked, "--json", *name) for place, name in ((ran.location, names), (root, ()))
        )
        assert (there.code, there.out) == (here.code, here.out), there.err


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_is_killed(members: Cluster, tmp_path: Path, point: str) -> None:
    with driver(members, tmp_path) as ran:
        for at in POINTS:
            ran.reach(at)
            if at == point:
                break
            ran.go_on()
        ran.kill()
        check(ran, was_killed=point != POINTS[-1])


@pytest.mark.parametrize("lost", ["first", "second", "third", "all"])
def test_members_that_are_killed_at_every_stage(members: Cluster, tmp_path: Path, lost: str) -> None:
    node = dict(zip(("first", "second", "third"), members.nodes, strict=True)).get(lost)
    with driver(members, tmp_path) as ran:
        for at in POINTS:
            ran.reach(at)
            ran.go_on()
            members.restart(node)
        ran.end()
        check(ran)


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("way", ["from the clients", "from each other"])
def test_links_that_are_cut(tmp_path: Path, way: str) -> None:
    (tmp_path / "nodes").mkdir()
    with networked(tmp_path / "nodes", 3) as (members, network), driver(members, tmp_path) as ran:
        for at in POINTS:
            ran.reach(at)
            ran.go_on()
            if at not in POINTS[-2:]:
                (cut_from_clients if way == "from the clients" else cut_one_off)(members, network)
        ran.end()
        check(ran)


def cut_from_clients(members: Cluster, network: Network) -> None:
    """No answer of a member reaches a client, for as long as each of them is waited for in vain; then all do again."""
    for place in network.places:
        place.ip(f"route add blackhole {network.subnet}.254")
    for node in members.nodes:
        with pytest.raises(TimeoutError):
            socket.create_connection((node.host, node.port), CUT_SECONDS)
    for place in network.places:
        place.ip(f"route delete blackhole {network.subnet}.254")


def cut_one_off(members: Cluster, network: Network) -> None:
    """The third member and the others do not hear each other until it has ended; then it comes back."""
    cut_off = members.nodes[2]
    network.cut(3, [1, 2])
    cut_off.ended()
    network.heal(3, [1, 2])
    members.start()
