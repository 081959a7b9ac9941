package kvwal.log;

import com.hazelcast.config.Config;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.instance.impl.Node;
import kvwal.backups.PendingChanges;
import kvwal.clock.OwnershipFence;
import kvwal.node.ReadyGate;

/** What the stores of all maps of a member share. */
public record LogContext(BatchQueues queues, ReadyGate gate, OwnershipFence fence, PendingChanges pending) {
    public static final long UNKNOWN = -1;
    private static final String SERVICE = "kvwal.log";

    /** Makes this the context of the member with this configuration. */
    public void configure(Config config) {
        config.getUserContext().put(SERVICE, this);
    }

    /** The context of a member. */
    public static LogContext of(HazelcastInstance instance) {
        return (LogContext) instance.getUserContext().get(SERVICE);
    }

    /** Throws unless this member may write changes of this partition now. */
    public void checkWritable(Node node, int partition) {
        gate.check();
        fence.pass(node, partition);
    }

    /**
     * A timestamp that is not below any that this member, or an owner before it, has given to a change of a partition that this
     * member does not own any more. UNKNOWN if the logs do not answer within `millis`.
     *
     * Hazelcast refuses changes of a partition before it copies the partition to the next owner, on the thread of the
     * partition. So all changes that were let through before are in the queues.
     */
    public long latest(long millis) throws InterruptedException {
        return queues.settle(millis) ? fence.latest() : UNKNOWN;
    }

    /**
     * A timestamp that no acknowledged change of the map in this partition is above, and every later one is: the owners of a
     * partition, one after the other, stamp its changes in order. Throws unless this member may write changes of the partition.
     */
    public long timestamp(Node node, String map, int partition) {
        checkWritable(node, partition);
        return Math.max(queues.timestamp(map), fence.lowWatermark() - 1);
    }
}
