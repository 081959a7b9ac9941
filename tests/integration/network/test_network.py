"""A network that fails: nothing acknowledged is lost, nobody is told what is older than what was acknowledged, and it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hazelcast.errors import HazelcastError
from hazelcast.serialization.api import IdentifiedDataSerializable

from kvwal.client.member_tasks import FACTORY
from tests.support.cluster.faults import loaded
from tests.support.cluster.network import Network, needs_networks, networked
from tests.support.cluster.nodes import INSPECTED, Cluster, Node, needs_hazelcast
from tests.support.cluster.writers import Reader
from tests.support.polling import until

pytestmark = [
    needs_hazelcast,
    pytest.mark.long,
    needs_networks,
]
SMALL = "[log]\narchive_seconds = 1\n"


def test_a_member_that_does_not_know_that_it_was_given_up(three: tuple[Cluster, Network]) -> None:
    """The others cannot reach it and give it up within a second, and it sees nothing wrong: it hears nothing, as at any moment
    without news. What it has is older than what they then write."""
    cluster, network = three
    lost = cluster.nodes[2]
    with loaded(cluster, "unknown") as (writers, _), lost.client() as believer:
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


def test_a_member_that_has_all_in_memory_is_cut_off(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It refuses, in a sentence, what the others serve; when they meet, it gives its memory up and starts anew. A client that
    goes by what this one says of who is there would stay with it, and be refused, until then. The oldest member would end."""
    with networked(tmp_path_factory.mktemp("whole"), 3, config="backups = 2\n" + SMALL) as (cluster, network):
        *others, lost = cluster.by_age()
        number, *rest = (cluster.nodes.index(node) + 1 for node in (lost, *others))
        with loaded(cluster, "whole", *others) as (writers, _):
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
