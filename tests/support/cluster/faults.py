"""Faults of three members under load, one after the other, and the clients that write and read meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import kvwal
from tests.support.cluster.consistency import REFUSED, UNKNOWN, Clients, checked
from tests.support.cluster.links import bring_back, members_of
from tests.support.cluster.network import Network
from tests.support.cluster.nodes import CLUSTER, Cluster, Node
from tests.support.cluster.writers import Reader, Writers
from tests.support.polling import until

MEANWHILE = 100
"""A round waits for this many acknowledged changes before a fault, during it and after it."""


class Load(NamedTuple):
    """Clients of Hazelcast, and clients of kvwal that make every kind of write."""

    writers: Writers
    clients: Clients

    def wait(self) -> None:
        """Until each of them wrote on."""
        self.writers.wait(MEANWHILE)
        self.clients.wait(MEANWHILE)


@contextmanager
def loaded(cluster: Cluster, name: str, *first: Node, timeout: float | None = None, **shape: Any) -> Iterator[Load]:
    """Clients that write and read meanwhile; afterwards what they saw is judged. They notice a silent member as members do:
    by default Hazelcast's client for Python waits a minute for an answer from one that is unplugged. They go by what one of
    `first` says of who is there, if any is named. `timeout` is that of kvwal's client, `shape` that of `Clients`.
    """
    members = [node.address for node in first or cluster.nodes]
    connect = kvwal.connect(members, cluster=CLUSTER, **({} if timeout is None else {"timeout": timeout}))
    with (
        cluster.client(*first, heartbeat_interval=1.0, heartbeat_timeout=10.0) as client,
        checked(connect, f"{name}-checked", **shape) as clients,
    ):
        writers = Writers(client, name)
        reader = Reader(client, writers, name)
        try:
            writers.wait(1000)
            yield Load(writers, clients)
            clients.wait(MEANWHILE)
        finally:
            reader.end()
            writers.end()
    print(
        f"{name}: longest time without an acknowledgement {writers.gap:.1f} s; {writers.last:,} changes, {reader.reads:,} reads;"
        f" refused or unknown: {dict(Counter(writers.errors))}, reads refused: {reader.errors}"
    )
    assert reader.reads
    assert not reader.stale
    assert not writers.wrong(cluster.contents(name))


class Scene(NamedTuple):
    """Three members that serve, and one of them that a fault meets, by its number."""

    cluster: Cluster
    network: Network
    load: Load
    lost: int
    round_: int

    @property
    def node(self) -> Node:
        """The member that the fault meets."""
        return self.cluster.nodes[self.lost - 1]

    @property
    def others(self) -> list[int]:
        """The numbers of the other members."""
        return [number for number in (1, 2, 3) if number != self.lost]


def _killed(scene: Scene) -> None:
    scene.node.kill()
    scene.load.wait()


def _told_to_end(scene: Scene) -> None:
    assert scene.node.stop() == 0
    scene.load.wait()


def _disk_lost(scene: Scene) -> None:
    _killed(scene)
    shutil.rmtree(scene.node.root)


def _all_killed(scene: Scene) -> None:
    scene.cluster.kill()
    scene.load.clients.wait_told(REFUSED, 1)


def _standing_still(scene: Scene) -> None:
    """Until the others give it up; every second time only for as long as a client waits, if one waits for it."""

    def given_up() -> bool:
        return members_of(scene.cluster.nodes[scene.others[0] - 1]) == len(scene.others)

    unknown = scene.load.clients.of(UNKNOWN)
    os.kill(scene.node.pid, signal.SIGSTOP)
    try:
        # Where another member decides and has the keys, no answer is lost: then it is only given up.
        until(lambda: scene.load.clients.of(UNKNOWN) > unknown or given_up() or None)
        if scene.round_ % 2 == 0:
            until(lambda: given_up() or None)
            scene.load.wait()
    finally:
        os.kill(scene.node.pid, signal.SIGCONT)


def _cut_off(scene: Scene, *, one_way: bool = False) -> None:
    """It ends when it sees that memory there has a hole, is started again while it is still cut off, and joins when it can."""
    scene.network.cut(scene.lost, scene.others, one_way=one_way)
    try:
        assert scene.node.ended() == 3
        scene.load.wait()
        scene.node.spawn()
        scene.node.told("waiting_for")
    finally:
        scene.network.heal(scene.lost, scene.others, one_way=one_way)
    scene.node.wait_ready()


def _not_heard(scene: Scene) -> None:
    _cut_off(scene, one_way=True)


def _unplugged(scene: Scene) -> None:
    """Nobody is told so: only its silence says it, to the other members and to the clients."""
    scene.network.unplug(scene.lost)
    try:
        assert scene.node.ended() == 3
        scene.load.wait()
    finally:
        scene.network.plug(scene.lost)


def _flapping(scene: Scene) -> None:
    """A link that comes and goes: nobody is given up."""
    for number in range(30):
        one = number % 3 + 1
        others = [other for other in (1, 2, 3) if other != one]
        scene.network.cut(one, others, one_way=number % 2 == 0)
        for node in scene.cluster.nodes:
            node.get("/healthz")
        scene.network.heal(one, others, one_way=number % 2 == 0)
        scene.load.writers.wait(50)
    assert all(node.ready()["ready"] for node in scene.cluster.nodes)


def _slow(scene: Scene) -> None:
    """Its link carries little; nobody is given up."""
    scene.network.slow(scene.lost, "512kbit")
    try:
        scene.load.wait()
    finally:
        scene.network.quicken(scene.lost)
    assert all(node.ready()["ready"] for node in scene.cluster.nodes)


FAULTS: dict[str, Callable[[Scene], None]] = {
    "killed": _killed,
    "told to end": _told_to_end,
    "disk lost": _disk_lost,
    "all killed": _all_killed,
    "standing still": _standing_still,
    "cut off": _cut_off,
    "not heard": _not_heard,
    "unplugged": _unplugged,
    "flapping": _flapping,
    "slow": _slow,
}


def meet(fault: str, cluster: Cluster, network: Network, load: Load, round_: int) -> None:
    """One round: another member each time; in the end all serve again, and nothing is left to adopt."""
    FAULTS[fault](Scene(cluster, network, load, round_ % 3 + 1, round_))
    bring_back(cluster.nodes)
    until(lambda: all("adopting" not in node.ready() for node in cluster.nodes) or None)
