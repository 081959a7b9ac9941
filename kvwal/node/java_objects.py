"""Java objects of a node that exist before Hazelcast starts, and that Hazelcast is configured with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvwal.node.jvm import java

_LEASE_SECONDS = 2
"""A member that takes over keys of a killed member waits this long before it changes one of them. A member without an answer from
the others stops serving within this time."""


@dataclass(frozen=True)
class JavaObjects:
    """The Java objects of a node that exist before Hazelcast starts. Each is documented in its source."""

    queues: Any
    """BatchQueues.java"""
    gate: Any
    """ReadyGate.java"""
    fence: Any
    """OwnershipFence.java"""
    leases: Any
    """Leases.java"""
    link_monitor: Any
    """LinkMonitor.java"""
    majority: Any
    """Majority.java"""
    history_requests: Any
    """HistoryRequests.java, for clients"""
    peer_requests: Any
    """HistoryRequests.java, for other members"""

    @staticmethod
    def create() -> JavaObjects:
        """All of them, of one node."""
        gate, leases = java("kvwal.node.ReadyGate")(), java("kvwal.quorum.Leases")(_LEASE_SECONDS)
        majority = java("kvwal.quorum.Majority")(gate, leases)
        requests = java("kvwal.history.HistoryRequests")
        return JavaObjects(
            queues=java("kvwal.log.BatchQueues")(), gate=gate, fence=java("kvwal.clock.OwnershipFence")(), leases=leases,
            link_monitor=java("kvwal.quorum.LinkMonitor")(), majority=majority,
            history_requests=requests(gate, majority), peer_requests=requests.ofPeers(),
        )  # fmt: skip
