"""Rounds of faults, while producers and takers use queues: no item is lost, none is given twice, and the order stays.

`KVWAL_LINK_ROUNDS` is how many rounds there are of each fault.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple, cast

import pytest

import kvwal
from tests.support.cluster.faults import FAULTS, Load, meet
from tests.support.cluster.network import Network, needs_networks
from tests.support.cluster.nodes import CLUSTER, Cluster, needs_hazelcast
from tests.support.queue.clients import QueueClients, checked_queues

ROUNDS = int(os.environ.get("KVWAL_LINK_ROUNDS", "1"))
SECONDS = 3
"""For so long a client goes on trying: less than members wait for one that is silent."""
MEANWHILE = 20
"""Acknowledged puts before a fault, during it and after it."""
pytestmark = [pytest.mark.long, needs_hazelcast, needs_networks, pytest.mark.timeout(900 * ROUNDS)]


class QueueLoad(NamedTuple):
    """The clients of queues, as the faults wait for them."""

    clients: Any

    @property
    def writers(self) -> QueueLoad:
        """The same clients."""
        return self

    def wait(self, more: int = MEANWHILE) -> None:
        """Until more puts were acknowledged, and of every kind of call one."""
        found: QueueClients = self.clients
        found.wait(min(more, MEANWHILE))


@pytest.mark.parametrize("fault", FAULTS)
def test_no_item_is_lost_or_given_twice(three: tuple[Cluster, Network], fault: str) -> None:
    cluster, network = three
    connect = kvwal.connect([node.address for node in cluster.nodes], cluster=CLUSTER, timeout=SECONDS)
    with checked_queues(connect, fault.replace(" ", "-")) as clients:
        load = QueueLoad(clients)
        for number in range(ROUNDS):
            load.wait()
            meet(fault, cluster, network, cast(Load, load), number)
            load.wait()
