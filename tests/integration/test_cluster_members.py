"""Several members: what a client was told is done is there when one of them goes, in whatever way, and when it comes back."""

from __future__ import annotations

import pytest

from tests.support.cluster import Cluster, cluster, needs_hazelcast
from tests.support.writers import Writers

pytestmark = needs_hazelcast
SMALL = "[log]\narchive_seconds = 1\n"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Three members for all tests here; each test leaves all of them serving."""
    with cluster(tmp_path_factory.mktemp("three"), 3, config=SMALL) as made:
        yield made


def test_a_killed_member_costs_nothing_that_was_acknowledged(three: Cluster) -> None:
    with three.client() as client:
        writers = Writers(client, "killed")
        writers.wait(2000)
        three.nodes[2].kill()
        writers.wait(2000)
        three.nodes[2].start()
        writers.wait(2000)
        writers.end()
        print(f"longest time without an acknowledgement: {writers.gap:.2f} s; errors: {writers.errors}")
        assert not writers.wrong(three.contents("killed"))
        assert not writers.errors


def test_a_rolling_restart_in_order_costs_nothing(three: Cluster) -> None:
    with three.client() as client:
        writers = Writers(client, "rolling")
        for node in three.nodes:
            writers.wait(500)
            assert node.stop() == 0
            writers.wait(500)
            node.start()
        writers.end()
        print(f"longest time without an acknowledgement: {writers.gap:.2f} s; errors: {writers.errors}")
        assert not writers.wrong(three.contents("rolling"))
