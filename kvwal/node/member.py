"""A Hazelcast member, configured so that the promises of the log can be kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import jpype

from kvwal.cluster.map_names import INTERNAL, VOLATILE
from kvwal.cluster.token import Token
from kvwal.errors import ConfigError, NotRecovered
from kvwal.node.adapters.membership import ADDRESS, AGREED, ARCHIVE, BACKUPS, NAMESPACE, NODE, STATUSES
from kvwal.node.config import NodeOptions, Tls
from kvwal.node.jvm import java
from kvwal.ports.disk import OS_DISK

MOST_COPIES = 6
_MAJORITY = "kvwal.majority"
_GONE_SECONDS = 10
_MASTER_SECONDS = 2
"""For this long, members that start at once ask each other which one is the oldest: see Hazelcast's TcpIpJoiner."""
_LEASE_SECONDS = 2
"""A member that takes over keys of a killed member waits this long before it changes one of them. A member without an answer from
the others stops serving within this time."""
_PROPERTIES = {
    "hazelcast.phone.home.enabled": "false",
    "hazelcast.socket.bind.any": "false",
    "hazelcast.shutdownhook.enabled": "false",
    "hazelcast.graceful.shutdown.max.wait": "6",
    "hazelcast.max.no.heartbeat.seconds": str(_GONE_SECONDS),
    "hazelcast.heartbeat.interval.seconds": "1",
    # A write whose backup did not answer is told to be of unknown outcome, instead of done.
    "hazelcast.operation.fail.on.indeterminate.state": "true",
    "hazelcast.wait.seconds.before.join": "0",
    # Members that started at the same moment and did not see each other become one cluster soon.
    "hazelcast.merge.first.run.delay.seconds": "5",
    "hazelcast.merge.next.run.delay.seconds": "10",
}


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


def configuration(options: NodeOptions, archive: str | None, java_objects: JavaObjects) -> Any:
    """The configuration of the Hazelcast member: the cluster's members, the maps with a log, the serializers."""
    config = java("com.hazelcast.config.Config")()
    config.setClusterName(options.cluster)
    config.setInstanceName(options.node)
    _attributes(config.getMemberAttributeConfig(), options, archive)
    for name, value in _PROPERTIES.items():
        config.setProperty(name, value)
    # Not by Hazelcast's `interfaces`: those would also sort out every other member that is known by a name of its own.
    config.setProperty("hazelcast.local.localAddress", options.address.host)
    _network(config.getNetworkConfig(), options)
    _serialization(config.getSerializationConfig())
    pending = java("kvwal.backups.PendingChanges")(options.file.backups, java_objects.leases, java_objects.majority)
    applied = java("kvwal.transactions.AppliedChanges")()
    context = java("kvwal.log.LogContext")(
        java_objects.queues, java_objects.gate, java_objects.fence, pending, applied.refusals()
    )
    context.configure(config)
    factory = java("kvwal.member.LogStoreFactory")(context)
    config.getMapConfig("default").setMapStoreConfig(_store(factory)).setSplitBrainProtectionName(_MAJORITY)
    protection = java("com.hazelcast.config.SplitBrainProtectionConfig")(_MAJORITY, True)
    guard = java("kvwal.backups.OperationGuard")(java_objects.majority, pending)
    java_objects.gate.configure(config)
    java_objects.leases.configure(config)
    java_objects.link_monitor.configure(config)
    java_objects.history_requests.configure(config)
    java_objects.peer_requests.configure(config)
    config.addSplitBrainProtectionConfig(protection.setFunctionImplementation(guard))
    for pattern in (f"{VOLATILE}*", f"{INTERNAL}*", AGREED, STATUSES):
        config.addMapConfig(java("com.hazelcast.config.MapConfig")(pattern))
    java("kvwal.transactions.Transactions").configure(config, _store(factory), java_objects.gate, applied)
    for name, found in config.getMapConfigs().items():
        found.setBackupCount({AGREED: MOST_COPIES, STATUSES: 0}.get(str(name), options.file.backups))
        found.setAsyncBackupCount(MOST_COPIES if str(name) == STATUSES else 0)
        # The half of a split cluster that comes back gives up its memory; its logs keep what it wrote.
        found.getMergePolicyConfig().setPolicy("DiscardMergePolicy")
    listener = java("kvwal.quorum.PartitionLossListener")(java_objects.gate, options.file.backups)
    config.addListenerConfig(java("com.hazelcast.config.ListenerConfig")(listener))
    return config


def _attributes(attributes: Any, options: NodeOptions, archive: str | None) -> None:
    """Set the attributes that identify a node to clients and members. The archive's URL is hashed: it may hold secrets."""
    attributes.setAttribute(NAMESPACE, options.namespace)
    attributes.setAttribute(NODE, options.node)
    attributes.setAttribute(ADDRESS, str(options.address))
    attributes.setAttribute(BACKUPS, str(options.file.backups))
    attributes.setAttribute(ARCHIVE, sha256((archive or "").encode()).hexdigest())


def _network(network: Any, options: NodeOptions) -> None:
    network.setPort(options.address.port)
    network.setPortAutoIncrement(False)
    join = network.getJoin()
    join.getAutoDetectionConfig().setEnabled(False)
    join.getMulticastConfig().setEnabled(False)
    tcp = join.getTcpIpConfig().setEnabled(True).setConnectionTimeoutSeconds(_MASTER_SECONDS)
    for member in options.members:
        tcp.addMember(str(member))


def _serialization(config: Any) -> None:
    """Values pickled by Python's client have a negative type id, which Hazelcast allows only for the global serializer.

    Java deserialization is for errors between members: see AllowedClasses.java."""
    config.setJavaSerializationFilterConfig(java("kvwal.security.AllowedClasses").filter())
    config.addDataSerializableFactory(java("kvwal.node.TaskIds").FACTORY, java("kvwal.member.TaskFactory")())
    opaque = java("kvwal.codec.OpaqueSerializer")
    pickles = java("com.hazelcast.config.GlobalSerializerConfig")()
    config.setGlobalSerializerConfig(pickles.setImplementation(opaque.pickles()))
    foreign = java("com.hazelcast.config.SerializerConfig")()
    foreign.setTypeClass(java("kvwal.codec.OpaqueSerializer$Foreign").class_)
    config.addSerializerConfig(foreign.setImplementation(opaque.foreigners()))


def _store(factory: Any) -> Any:
    store = java("com.hazelcast.config.MapStoreConfig")()
    store.setEnabled(True)
    store.setFactoryImplementation(factory)
    store.setWriteDelaySeconds(0)
    store.setOffload(True)
    return store


def make_tls(files: Tls | None) -> Any:
    """The TLS context (Tls.java); None without TLS. `ConfigError` if the files do not hold a certificate and its key."""
    if files is None:
        return None
    try:
        parts = [OS_DISK.read(Path(path)) for path in (files.certificate, files.key, files.authority)]
        return java("kvwal.security.Tls")(*parts)
    except (OSError, jpype.JException) as error:
        raise ConfigError(
            f"[tls]: {files.certificate}, {files.key} and {files.authority} cannot be used ({error}).",
            hint="Give files of PEM that this user may read: a certificate, its key as PKCS#8 without a password, an authority.",
        ) from error


def start(config: Any, volatile: Sequence[str], token: Token | None, tls: Any) -> Any:
    """Join the cluster, or begin one; returns the instance. Blocks for seconds. `ConfigError` if it cannot be.

    Clients may use the services without a log that are named in `volatile`: see ServicePolicy.java. Clients and members must show
    `token`, unless it is None: see TokenHandshake.java. `tls` is what `make_tls` made."""
    secret = None if token is None else java("kvwal.security.Token")(token.reveal().encode())
    try:
        return java("kvwal.member.KvwalNodeContext")(
            java("kvwal.clients.ServicePolicy")(list(volatile)), secret, tls
        ).start(config)
    except jpype.JException as error:
        raise ConfigError(
            f"the member cannot start: {error}.", hint="See whether --address is free, and this machine's own."
        ) from error


def check_whole(gate: Any) -> None:
    """`NotRecovered` once memory has lost a part. `gate` is ReadyGate.java."""
    if (lost := gate.lost()) is not None:
        raise NotRecovered(
            f"{lost}; nobody is to take what is missing here for absent.",
            hint="Start this node again, and every other node that ended: memory is loaded again from the logs.",
        )


def check_running(instance: Any) -> None:
    """`NotRecovered` if Hazelcast has ended in this process. Not to be called once kvwal itself has ended Hazelcast, which also
    ends by itself when memory is used up, or when a client shuts it down."""
    if not instance.getLifecycleService().isRunning():
        raise NotRecovered(
            "Hazelcast has ended in this node, which nobody told to leave; what it said before says why. Nothing is lost that was"
            " acknowledged.",
            hint="Start this node again; if it was memory that ran out, with a larger heap in the node's file.",
        )
