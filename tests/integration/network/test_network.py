"""A network that fails: nothing acknowledged is lost, nobody is told what is older than what was acknowledged, and it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hazelcast.errors import HazelcastError
from hazelcast.serialization.api import IdentifiedDataSerializable

import kvwal
from kvwal.client.member_tasks import FACTORY
from tests.support.cluster import network as support
from tests.support.cluster.consistency import checked
from tests.support.cluster.network import Network, networked
from tests.support.cluster.nodes import CLUSTER, INSPECTED, Cluster, Node, needs_hazelcast
from tests.support.cluster.writers import Reader, Writers
from tests.support.polling import until

pytestmark = [
    needs_hazelcast,
    pytest.mark.long,
    pytest.mark.skipif(support.missing() is not None, reason=str(support.missing())),
]
SMALL = "[log]\narchive_seconds = 1\n"


@contextmanager
def load(cluster: Cluster, name: str, *first: Node) -> Iterator[Writers]:
    """Clients that write and read meanwhile; afterwards what they saw is judged. They notice a silent member as members do:
    by default Hazelcast's client for Python waits a minute for an answer from one that is unplugged. They go by what one of
    `first` says of who is there, if any is named.
    """
    members = [node.address for node in first or cluster.nodes]
    connect = kvwal.connect(members, cluster=CLUSTER)
    with (
        cluster.client(*first, heartbeat_interval=1.0, heartbeat_timeout=10.0) as client,
        checked(connect, f"{name}-checked") as clients,
    ):
        writers = Writers(client, name)
        writers.wait(1000)
        reader = Reader(client, writers, name)
        clients.wait(100)
        yield writers
        clients.wait(100)
        reader.end()
        writers.end()
    print(
        f"{name}: longest time without an acknowledgement {writers.gap:.1f} s; {writers.last:,} changes, {reader.reads:,} reads;"
        f" refused or unknown: {dict(Counter(writers.errors))}, reads refused: {reader.errors}"
    )
    assert reader.reads
    assert not reader.stale
    assert not writers.wrong(cluster.contents(name))


@pytest.mark.parametrize("one_way", [False, True])
def test_a_member_is_cut_off_and_comes_back(three: tuple[Cluster, Network], one_way: bool) -> None:
    """It ends when it sees that memory there has a hole, is started again while it is still cut off, and joins when it can."""
    cluster, network = three
    lost = cluster.nodes[2]
    with load(cluster, "one-way" if one_way else "cut") as writers:
        network.cut(3, [1, 2], one_way=one_way)
        assert lost.ended() == 3
        writers.wait(1000)
        lost.spawn()
        lost.told("waiting_for")
        network.heal(3, [1, 2], one_way=one_way)
        lost.wait_ready()
        writers.wait(1000)


def test_a_member_that_does_not_know_that_it_was_given_up(three: tuple[Cluster, Network]) -> None:
    """The others cannot reach it and give it up within a second, and it sees nothing wrong: it hears nothing, as at any moment
    without news. What it has is older than what they then write."""
    cluster, network = three
    lost = cluster.nodes[2]
    with load(cluster, "unknown") as writers, lost.client() as believer:
        reader = Reader(believer, writers, "unknown")
        for other in (1, 2):
            network.cut(other, [3], one_way=True)
            if not network.drop(other, 3):
                pytest.skip("this kernel does not break connections when it is told to")
        assert lost.ended() == 3
        for other in (1, 2):
            network.heal(other, [3], one_way=True)
        lost.start()
        writers.wait(1000)
        reader.end()
        assert not reader.stale


def test_a_member_is_unplugged_and_comes_back(three: tuple[Cluster, Network]) -> None:
    """Nobody is told so: only its silence says it, to the other members and to the clients."""
    cluster, network = three
    lost = cluster.nodes[2]
    with load(cluster, "unplugged") as writers:
        network.unplug(3)
        assert lost.ended() == 3
        writers.wait(1000)
        network.plug(3)
        lost.start()
        writers.wait(1000)


def test_a_link_that_comes_and_goes(three: tuple[Cluster, Network]) -> None:
    cluster, network = three
    with load(cluster, "flapping") as writers:
        for number in range(30):
            one = number % 3 + 1
            others = [other for other in (1, 2, 3) if other != one]
            network.cut(one, others, one_way=number % 2 == 0)
            for node in cluster.nodes:
                node.get("/healthz")
            network.heal(one, others, one_way=number % 2 == 0)
            writers.wait(50)
    assert all(node.ready()["ready"] for node in cluster.nodes)


def test_a_slow_link(three: tuple[Cluster, Network]) -> None:
    cluster, network = three
    with load(cluster, "slow") as writers:
        network.slow(3, "512kbit")
        writers.wait(500)
        network.quicken(3)
        writers.wait(500)
    assert all(node.ready()["ready"] for node in cluster.nodes)


def test_a_member_that_has_all_in_memory_is_cut_off(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It refuses, in a sentence, what the others serve; when they meet, it gives its memory up and starts anew. A client that
    goes by what this one says of who is there would stay with it, and be refused, until then. The oldest member would end."""
    with networked(tmp_path_factory.mktemp("whole"), 3, config="backups = 2\n" + SMALL) as (cluster, network):
        *others, lost = cluster.by_age()
        number, *rest = (cluster.nodes.index(node) + 1 for node in (lost, *others))
        with load(cluster, "whole", *others) as writers:
            network.cut(number, rest)
            with lost.client() as client:
                alone = client.get_map("whole").blocking()
                told = ""
                while "1 of the 3 members" not in told:
                    assert lost.process is not None
                    assert lost.process.poll() is None, lost.log.read_text()
                    try:
                        alone.get("key-1")
                    except HazelcastError as error:
                        told = str(error)
            writers.wait(1000)
            network.heal(number, rest)
            assert lost.ended() == 3
            assert "meets them again" in lost.log.read_text()
            lost.start()
            writers.wait(1000)


class Ask(IdentifiedDataSerializable):
    """What members ask each other: what they were told of how far clocks may run (ClockBounds.java)."""

    def get_factory_id(self) -> int:
        return FACTORY

    def get_class_id(self) -> int:
        return 7

    def write_data(self, object_data_output: Any) -> None:
        pass

    def read_data(self, object_data_input: Any) -> None:
        pass


def test_what_was_lost_with_a_connection_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is given up, and with this setting Hazelcast never says that a question has no answer any more."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{INSPECTED} -Dhazelcast.operation.call.timeout.millis=86400000")
    with networked(tmp_path, 2, config=SMALL) as (cluster, network), cluster.client() as client:
        executor = client.get_executor("kvwal.members")
        members = {member.address.port: member for member in client.cluster_service.get_members()}

        def told(who: Node, of: Node) -> str:
            """What `of` told `who` last."""
            words = executor.execute_on_member(members[who.port], Ask()).result()
            return dict(zip(words[::3], words[2::3], strict=True))[f"timer:{of.name}"]

        def tells_more(who: Node, of: Node) -> None:
            before = told(who, of)
            until(lambda: told(who, of) != before or None)

        if not network.lose(1, 2, 2000):
            pytest.skip("this kernel does not break connections when it is told to")
        one, two = cluster.nodes
        tells_more(one, two)
        tells_more(two, one)
