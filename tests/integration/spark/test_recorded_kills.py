"""A recorded application while its driver, members of its cluster, or the links between them are lost: each event counts once.

The application stops at named points (`tests.support.programs.recorded`). Its own event log, read into a root by a plain
`kvwal record`, says what must be recorded, and so does Spark's REST API, which it asked after its last job.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support.cluster.network import Network, missing, networked
from tests.support.cluster.nodes import Cluster, needs_hazelcast
from tests.support.programs.recorded import POINTS
from tests.support.recording.spark_driver import check, spark_driver

pytestmark = [needs_hazelcast, pytest.mark.long]
CUT_SECONDS = 3.0
"""For each of three members; a call of the recorder of this application gives up after 5."""


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_is_killed(members: Cluster, tmp_path: Path, point: str) -> None:
    with spark_driver(members.location, tmp_path) as ran:
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
    with spark_driver(members.location, tmp_path) as ran:
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
    with networked(tmp_path / "nodes", 3) as (members, network), spark_driver(members.location, tmp_path) as ran:
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
