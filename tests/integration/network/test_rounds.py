"""Rounds of faults: nothing acknowledged is lost or replaced, and the members that can serve do so.

`KVWAL_LINK_ROUNDS` is how many rounds there are of each fault. They take turns in which member is met, and in how a link is cut.
"""

from __future__ import annotations

import os

import pytest

from tests.support.cluster.consistency import UNKNOWN
from tests.support.cluster.faults import FAULTS, loaded, meet
from tests.support.cluster.links import KINDS, How, Outcome, Round
from tests.support.cluster.network import Network, needs_networks
from tests.support.cluster.nodes import Cluster, needs_hazelcast

ROUNDS = int(os.environ.get("KVWAL_LINK_ROUNDS", "1"))
PAIRS = 24
"""Transactions that are under way at a fault: enough that some have one key with the elder and another elsewhere."""
SECONDS = 3
"""For so long a client of kvwal goes on trying: less than members wait for one that is silent."""
HARMLESS = ("told to end", "flapping", "slow")
"""Faults by which no client need hear of an unknown outcome."""
pytestmark = [pytest.mark.long, needs_hazelcast, needs_networks, pytest.mark.timeout(900 * ROUNDS)]


@pytest.mark.parametrize("fault", FAULTS)
def test_what_was_acknowledged_is_not_replaced_by_an_earlier_write(three: tuple[Cluster, Network], fault: str) -> None:
    """Earlier, and of unknown outcome: each client writes on to the same keys, and many change two keys as one."""
    cluster, network = three
    with loaded(cluster, fault.replace(" ", "-"), timeout=SECONDS, pairs=PAIRS) as load:
        for number in range(ROUNDS):
            load.wait()
            meet(fault, cluster, network, load, number)
            print(f"{fault}: {load.clients.of(UNKNOWN)} unknown after {number + 1} rounds", flush=True)
            load.wait()
        assert fault in HARMLESS or load.clients.of(UNKNOWN) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_two_of_three_serve_on(three: tuple[Cluster, Network], kind: str) -> None:
    cluster, network = three
    outcomes: list[Outcome] = []
    with loaded(cluster, kind.replace(" ", "-").replace(",", "")) as load:
        for number in range(ROUNDS):
            load.wait()
            how = list(How)[(number + list(KINDS).index(kind)) % len(How)]
            outcomes.append(Round(cluster, network, load.writers).run(KINDS[kind], how))
            print(f"{kind}: {outcomes[-1]}", flush=True)
    assert [outcome for outcome in outcomes if not outcome.served or len(outcome.ended) > 1] == []


def test_a_transaction_is_whole_of_which_only_an_owner_that_ends_had_a_part(three: tuple[Cluster, Network]) -> None:
    """In the first round the elder cannot send to the master what it has applied, and ends: its memory goes with it."""
    cluster, network = three
    outcomes: list[Outcome] = []
    with loaded(cluster, "half-of-it", writers=1, readers=1, others=1, pairs=PAIRS) as load:
        for number in range(ROUNDS):
            load.wait()
            how, kind = list(How)[2 - number % 3], list(KINDS)[2 - number % len(KINDS)]
            outcomes.append(Round(cluster, network, load.writers).run(KINDS[kind], how))
            print(f"{kind}: {outcomes[-1]}", flush=True)
        load.wait()
        assert load.clients.of(UNKNOWN) > 0
    assert [outcome for outcome in outcomes if not outcome.served] == []
