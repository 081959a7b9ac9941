package kvwal.node;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.instance.impl.HazelcastInstanceImpl;
import com.hazelcast.instance.impl.HazelcastInstanceProxy;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.internal.partition.IPartition;
import com.hazelcast.spi.impl.NodeEngineImpl;

/** The way from what Hazelcast hands out to what is inside. */
public final class Members {
    private Members() { }

    static Node node(HazelcastInstance instance) {
        HazelcastInstanceImpl own = instance instanceof HazelcastInstanceProxy
            ? ((HazelcastInstanceProxy) instance).getOriginal() : (HazelcastInstanceImpl) instance;
        return own.node;
    }

    /** Whether every partition is in the memory of its owner and of `backups` others, or of all if they are fewer. */
    public static boolean areCopied(HazelcastInstance instance, int backups) {
        int copies = Math.min(backups, instance.getCluster().getMembers().size() - 1);
        for (IPartition partition : node(instance).getPartitionService().getPartitions()) {
            for (int replica = 0; replica <= copies; replica++) {
                if (partition.getReplicaAddress(replica) == null) {
                    return false;
                }
            }
        }
        return true;
    }

    static NodeEngineImpl engine(HazelcastInstance instance) {
        return node(instance).getNodeEngine();
    }
}
