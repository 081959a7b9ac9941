"""A member of Hazelcast that lets nobody join: python -m tests.support.member.frozen PORT

It says "frozen" when it is, and ends when its standard input does. While members merge, or their state changes, Hazelcast refuses
a new member in the same way.
"""

from __future__ import annotations

import sys

from kvwal.node import jvm
from tests.support.cluster.nodes import CLUSTER


def main() -> None:
    """Freeze, and wait."""
    jvm.start("64m", None, ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
    config = jvm.java("com.hazelcast.config.Config")()
    config.setClusterName(CLUSTER)
    for name, value in {
        "hazelcast.phone.home.enabled": "false",
        "hazelcast.socket.bind.any": "false",
        "hazelcast.local.localAddress": "127.0.0.1",
        "hazelcast.wait.seconds.before.join": "0",
    }.items():
        config.setProperty(name, value)
    network = config.getNetworkConfig()
    network.setPort(int(sys.argv[1])).setPortAutoIncrement(False)
    join = network.getJoin()
    join.getAutoDetectionConfig().setEnabled(False)
    join.getMulticastConfig().setEnabled(False)
    join.getTcpIpConfig().setEnabled(True).addMember(f"127.0.0.1:{sys.argv[1]}")
    instance = jvm.java("com.hazelcast.core.Hazelcast").newHazelcastInstance(config)
    instance.getCluster().changeClusterState(jvm.java("com.hazelcast.cluster.ClusterState").FROZEN)
    print("frozen", flush=True)
    sys.stdin.read()
    instance.getLifecycleService().terminate()


if __name__ == "__main__":
    main()
