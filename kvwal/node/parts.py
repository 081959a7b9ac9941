"""Parts of a node: its thread pools, and the parts of a member that Hazelcast has started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from kvwal.cluster.clock_bounds import ClockBounds
from kvwal.cluster.membership import LocalMembership
from kvwal.cluster.quorum import Quorum
from kvwal.entry import timestamps_within
from kvwal.node.adapters.archive_requests import ArchiveRequests, cluster_archive
from kvwal.node.adapters.bounds_exchange import ClockBoundsExchange
from kvwal.node.adapters.failover import Adoption
from kvwal.node.adapters.link_watch import LinkWatch
from kvwal.node.adapters.live_members import Membership
from kvwal.node.adapters.memory_fill import MemoryFill
from kvwal.node.adapters.quorum_membership import QuorumMembership
from kvwal.node.adapters.serving_membership import ServingMembership
from kvwal.node.adapters.start_up import StartUp
from kvwal.node.adapters.status_exchange import StatusExchange
from kvwal.node.config import NodeOptions
from kvwal.node.health.memory_limit import MemoryLimit
from kvwal.node.jvm import java
from kvwal.node.lifecycle import Lifecycle
from kvwal.node.local_logs import ArchivedUntil
from kvwal.node.member import JavaObjects
from kvwal.node.queues.service import QueueService
from kvwal.node.requests.content_service import ContentService
from kvwal.node.requests.history_service import HistoryService
from kvwal.node.requests.log_copies import Copies
from kvwal.node.requests.own_changes import OwnChanges
from kvwal.node.requests.peers import Peers
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.engine import Engine


@dataclass(frozen=True)
class Pools:
    """The thread pools of a node."""

    askers: ThreadWorkers
    """Calls that wait for the answer of another member."""
    workers: ThreadWorkers
    readers: ThreadWorkers
    """Reads of history. They take long, and the other pools do not wait for them."""
    scrapers: ThreadWorkers
    queues: ThreadWorkers
    """Changes of queues and of names of contents. They wait for other members."""

    @staticmethod
    def create() -> Pools:
        """All pools of one node."""
        return Pools(
            askers=ThreadWorkers("kvwal-askers", 16),
            workers=ThreadWorkers("kvwal-node", 4),
            readers=ThreadWorkers("kvwal-past", 4),
            scrapers=ThreadWorkers("kvwal-metrics", 1),
            queues=ThreadWorkers("kvwal-queues", 8),
        )

    def close(self) -> None:
        """Wait for the calls that run, and take no more."""
        for field in fields(self):
            getattr(self, field.name).close()


@dataclass(frozen=True)
class ServingParts:
    """The parts of a member that exist once Hazelcast has started."""

    instance: Any
    """Hazelcast's."""
    query_probe: Any
    """QueryProbe.java"""
    membership: Membership
    quorum_membership: QuorumMembership
    statuses: StatusExchange
    serving: ServingMembership
    start_up: StartUp
    adoption: Adoption
    clock_bounds: ClockBoundsExchange
    link_watch: LinkWatch
    peers: Peers
    queues: QueueService
    """It answers all requests of clients: those that are not for queues by the content service and the history service."""
    memory_limit: MemoryLimit
    logged: Mapping[str, int]
    """The timestamp of the last entry that the log of each business held at the start."""


def build_parts(
    options: NodeOptions,
    engine: Engine,
    java_objects: JavaObjects,
    instance: Any,
    record: LocalMembership,
    bounds: ClockBounds,
    lifecycle: Lifecycle,
    pools: Pools,
) -> ServingParts:
    """Build all parts. None of them has told the other members anything yet, or begun a task. The logs are open."""
    context, workers, gate = engine.options, pools.workers, java_objects.gate
    latest = partial(java("kvwal.log.LatestTimestamps").ofOthers, instance)
    membership = Membership(instance, java("kvwal.clock.ClockBounds")(instance), latest, java_objects.leases)
    expect = java_objects.majority.expect if options.file.majority else lambda names: None
    quorum_membership = QuorumMembership(membership, options.node, expect)

    def quorum() -> Quorum | None:
        return quorum_membership.current if options.file.majority else None

    clock_bounds = ClockBoundsExchange(membership, bounds, java_objects.fence, context.clock, ArchivedUntil(engine))
    archive = partial(cluster_archive, engine)
    archiving = ArchiveRequests(options.node, engine.archive)
    statuses = StatusExchange(options, membership, quorum_membership, record, archiving, workers)
    serving = ServingMembership(
        membership, quorum_membership, record, statuses, archiving, context.clock, workers
    )  # fmt: skip
    own_changes = OwnChanges(engine, bounds, archive, pools.readers)
    peers = Peers(instance, membership, engine, own_changes, pools.askers, pools.readers)
    copies = Copies(peers.own_copy, peers.ask, engine, pools.readers)
    make_loader = partial(java("kvwal.log.MemoryLoader"), instance)
    fill = MemoryFill(
        engine, membership, quorum_membership, statuses, make_loader, gate, copies, lifecycle, workers
    )  # fmt: skip
    history = HistoryService(engine, archive, peers, pools.readers)
    contents = ContentService(instance, engine, archive, pools.queues, history.answer)
    return ServingParts(
        instance=instance,
        query_probe=java("kvwal.member.QueryProbe")(instance),
        membership=membership,
        quorum_membership=quorum_membership,
        statuses=statuses,
        serving=serving,
        start_up=StartUp(
            options, engine, membership, quorum_membership, record, statuses, fill, make_loader, gate, lifecycle, workers,
            clock_bounds.archived_of,
        ),
        adoption=Adoption(
            membership, quorum, partial(java("kvwal.failover.FailoverAppend"), instance), serving.all_archive, archive,
            (context.namespace, context.cluster), timestamps_within(context.settings.max_skew_seconds),
            context.clock, workers,
        ),
        clock_bounds=clock_bounds,
        link_watch=LinkWatch(instance, java_objects.link_monitor, gate, membership, quorum, context.clock),
        peers=peers,
        queues=QueueService(instance, pools.queues, context.clock, contents.answer),
        memory_limit=MemoryLimit(instance, statuses, options.file, context.clock, workers),
        logged={name: business.log.recovered.last_timestamp for name, business in engine.businesses.items()},
    )  # fmt: skip
