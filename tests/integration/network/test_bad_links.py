"""One bad link, one way or both: of three members two serve on, and nothing acknowledged is lost."""

from __future__ import annotations

import os
from collections import Counter

import pytest

import kvwal
from tests.support.cluster import network as support
from tests.support.cluster.consistency import UNKNOWN, checked
from tests.support.cluster.links import KINDS, How, Outcome, Round
from tests.support.cluster.network import Network
from tests.support.cluster.nodes import CLUSTER, Cluster, needs_hazelcast
from tests.support.cluster.writers import Writers

ROUNDS = int(os.environ.get("KVWAL_LINK_ROUNDS", "1"))
"""Rounds of each kind, which take turns in how they cut."""
PAIRS = 24
"""Of so many transactions that are under way at the cut, some have one key with the elder and another elsewhere."""
pytestmark = [
    pytest.mark.long,
    needs_hazelcast,
    pytest.mark.skipif(support.missing() is not None, reason=str(support.missing())),
    pytest.mark.timeout(900 * ROUNDS),
]


@pytest.mark.parametrize("kind", KINDS)
def test_two_of_three_serve_on(three: tuple[Cluster, Network], kind: str) -> None:
    cluster, network = three
    name = kind.replace(" ", "-").replace(",", "")
    outcomes: list[Outcome] = []
    connect = kvwal.connect(cluster.addresses, cluster=CLUSTER)
    with (
        cluster.client(heartbeat_interval=1.0, heartbeat_timeout=10.0) as client,
        checked(connect, f"{name}-checked") as clients,
    ):
        writers = Writers(client, name)
        try:
            writers.wait(1000)
            for number in range(ROUNDS):
                clients.wait(100)
                how = list(How)[(number + list(KINDS).index(kind)) % len(How)]
                outcomes.append(Round(cluster, network, writers).run(KINDS[kind], how))
                print(f"{kind}: {outcomes[-1]}", flush=True)
            clients.wait(100)
        finally:
            writers.end()
    print(f"{kind}: refused or unknown {dict(Counter(writers.errors))}")
    assert not writers.wrong(cluster.contents(name))
    assert [outcome for outcome in outcomes if not outcome.served or len(outcome.ended) > 1] == []


def test_a_transaction_is_whole_of_which_only_an_owner_that_ends_had_a_part(three: tuple[Cluster, Network]) -> None:
    """In the first round the elder cannot send to the master what it has applied, and ends: its memory goes with it."""
    cluster, network = three
    outcomes: list[Outcome] = []
    connect = kvwal.connect(cluster.addresses, cluster=CLUSTER)
    with (
        cluster.client(heartbeat_interval=1.0, heartbeat_timeout=10.0) as client,
        checked(connect, "half-of-it", writers=1, readers=1, others=1, pairs=PAIRS) as clients,
    ):
        writers = Writers(client, "half-of-it-beside")
        try:
            writers.wait(100)
            for number in range(ROUNDS):
                clients.wait(100)
                how, kind = list(How)[2 - number % 3], list(KINDS)[2 - number % len(KINDS)]
                outcomes.append(Round(cluster, network, writers).run(KINDS[kind], how))
                print(f"{kind}: {outcomes[-1]}", flush=True)
            clients.wait(100)
        finally:
            writers.end()
    assert clients.of(UNKNOWN) > 0
    assert not writers.wrong(cluster.contents("half-of-it-beside"))
    assert [outcome for outcome in outcomes if not outcome.served] == []
