"""A Hazelcast member, configured so that the promises of the log can be kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import jpype

from kvwal.cluster.map_names import INTERNAL, VOLATILE
from kvwal.cluster.token import TokenSource
from kvwal.config import check_file
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ConfigError, NotRecovered, StartFailed
from kvwal.hlc import to_text
from kvwal.node.adapters.live_members import (
    ADDRESS,
    AGREED,
    ARCHIVE,
    BACKUPS,
    CONTENTS,
    NAMESPACE,
    NODE,
    QUEUES,
    STATUSES,
)
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
    # Hazelcast's own figures are read by no one, and cost an idle node processor time every five seconds.
    "hazelcast.metrics.enabled": "false",
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
    figure_requests: Any
    """HistoryRequests.java, for clients that ask for figures"""

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
            figure_requests=requests.ofFigures(),
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
    context = java("kvwal.log.LogContext")(java_objects.queues, java_objects.gate, java_objects.fence, pending)
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
    java_objects.figure_requests.configure(config)
    config.addSplitBrainProtectionConfig(protection.setFunctionImplementation(guard))
    for pattern in (f"{VOLATILE}*", f"{INTERNAL}*", AGREED, STATUSES):
        config.addMapConfig(java("com.hazelcast.config.MapConfig")(pattern))
    java("kvwal.transactions.Transactions").configure(config, _store(factory), java_objects.gate)
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
    attributes.setAttribute(QUEUES, "1")
    attributes.setAttribute(CONTENTS, "1")
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


class TlsContext(NamedTuple):
    """The TLS of a node: its context (Tls.java), the file of its certificate, and when that ends, in unix ms."""

    context: Any
    file: str
    ends_ms: int


def make_tls(files: Tls | None, wall_ms: int) -> TlsContext | None:
    """The TLS of this node; None without TLS.

    `ConfigError` if the files do not hold a certificate and its key, or if the certificate has expired. `StartFailed` if the
    certificate does not count yet.
    """
    if files is None:
        return None
    context = _tls_context(files)
    begins, ends = int(context.begins()), int(context.ends())
    if ends <= wall_ms:
        raise ConfigError(
            f"[tls]: {files.certificate}, or the authority {files.authority}, has expired at"
            f" {to_text(ends << TIMESTAMP_SHIFT)}: nobody could connect.",
            hint="Put a new certificate there, and start the node again; docs/security.md has the commands.",
        )
    if begins > wall_ms:
        raise StartFailed(
            f"[tls]: {files.certificate} counts from {to_text(begins << TIMESTAMP_SHIFT)} on, and this machine's clock shows"
            f" {to_text(wall_ms << TIMESTAMP_SHIFT)}.",
            hint="See whether the clock is right, and start the node again then.",
        )
    return TlsContext(context, files.certificate, ends)


def _tls_context(files: Tls) -> Any:
    try:
        parts = [
            OS_DISK.read(check_file("file of [tls]", path)) for path in (files.certificate, files.key, files.authority)
        ]
        return java("kvwal.security.Tls")(*parts)
    except (OSError, jpype.JException) as error:
        raise ConfigError(
            f"[tls]: {files.certificate}, {files.key} and {files.authority} cannot be used ({error}).",
            hint="Give files of PEM that this user may read: a certificate, its key as PKCS#8 without a password, an authority.",
        ) from error


def make_tokens(source: TokenSource) -> Any:
    """Tokens.java with the tokens of a source. `change_tokens` brings them up to date."""
    return java("kvwal.security.Tokens")(*_secrets(source))


def change_tokens(tokens: Any, source: TokenSource) -> None:
    """Have the member accept the tokens that the source has now, and show the first of them to other members."""
    tokens.change(*_secrets(source))


def _secrets(source: TokenSource) -> tuple[bytes, bytes | None]:
    """The token that is shown, and the other one that is accepted."""
    shown, *others = (token.reveal().encode() for token in source.tokens)
    return shown, others[0] if others else None


def start(config: Any, volatile: Sequence[str], tokens: Any, tls: TlsContext | None) -> Any:
    """Join the cluster, or begin one; returns the instance. Blocks for seconds. `StartFailed` if that cannot be now.

    Clients may use the services without a log that are named in `volatile`: see ServicePolicy.java. Clients and members must show
    one of `tokens`, unless they are None: see TokenHandshake.java. `tls` is what `make_tls` made."""
    try:
        return java("kvwal.member.KvwalNodeContext")(
            java("kvwal.clients.ServicePolicy")(list(volatile)), tokens, None if tls is None else tls.context
        ).start(config)
    except jpype.JException as error:
        raise StartFailed(
            f"the member could not start, or join the others ({error}).",
            hint="Start the node again: members that merge, or whose state changes, let nobody join meanwhile. If it goes on, the"
            " lines of Hazelcast before this one say why.",
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
