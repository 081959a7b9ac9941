package kvwal.log;

import com.hazelcast.config.Config;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.internal.serialization.Data;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiConsumer;
import kvwal.backups.PendingChanges;
import kvwal.clock.OwnershipFence;
import kvwal.node.HazelcastInternals;
import kvwal.node.ReadyGate;

/** What the stores of all maps of a member share. `onRefused` hears of each map and key of which the log refused a change. */
public record LogContext(BatchQueues queues, ReadyGate gate, OwnershipFence fence, PendingChanges pending,
                         BiConsumer<String, Data> onRefused) {
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
     * A timestamp that no acknowledged change of the map in this partition is above, and every later one is: the owners of a
     * partition, one after the other, stamp its changes in order. Throws unless this member may write changes of the partition.
     */
    public long timestamp(Node node, String map, int partition) {
        checkWritable(node, partition);
        return Math.max(queues.timestamp(map), fence.floor() - 1);
    }

    /** Done when the backups have each change of a key that this owner's memory has now, or another member owns the key. */
    public CompletableFuture<Void> settled(HazelcastInstance instance, String map, Data key) {
        return pending.settled(map, HazelcastInternals.node(instance).getPartitionService().getPartitionId(key), key);
    }
}
