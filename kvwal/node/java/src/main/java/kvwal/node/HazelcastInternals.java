package kvwal.node;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.instance.impl.HazelcastInstanceImpl;
import com.hazelcast.instance.impl.HazelcastInstanceProxy;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.internal.partition.IPartition;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.MapServiceContext;
import com.hazelcast.map.impl.operation.MapOperation;
import com.hazelcast.spi.impl.NodeEngineImpl;
import java.util.StringJoiner;
import kvwal.codec.ValueCodec;

/** Access to the parts inside a HazelcastInstance. */
public final class HazelcastInternals {
    private HazelcastInternals() { }

    public static Node node(HazelcastInstance instance) {
        HazelcastInstanceImpl own = instance instanceof HazelcastInstanceProxy
            ? ((HazelcastInstanceProxy) instance).getOriginal() : (HazelcastInstanceImpl) instance;
        return own.node;
    }

    /** The UUIDs of the members, this one's first, then those of all in their order: the oldest first. */
    public static String memberIds(HazelcastInstance instance) {
        StringJoiner ids = new StringJoiner(" ").add(instance.getCluster().getLocalMember().getUuid().toString());
        instance.getCluster().getMembers().forEach(member -> ids.add(member.getUuid().toString()));
        return ids.toString();
    }

    /** Whether every partition is in the memory of its owner and of `backups` other members, or of all if they are fewer. */
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

    /**
     * The value of a key in its owner's memory, after all changes of its partition that are under way; null if there is none.
     */
    public static ValueCodec.Encoded held(HazelcastInstance instance, String map, Data key) {
        NodeEngineImpl engine = engine(instance);
        MapServiceContext maps = engine.<MapService>getService(MapService.SERVICE_NAME).getMapServiceContext();
        MapOperation get = maps.getMapOperationProvider(map).createGetOperation(map, key);
        int partition = engine.getPartitionService().getPartitionId(key);
        Object found = engine.getOperationService().invokeOnPartition(MapService.SERVICE_NAME, get, partition).joinInternal();
        return found == null ? null : ValueCodec.of(maps.toData(found));
    }

    public static NodeEngineImpl engine(HazelcastInstance instance) {
        return node(instance).getNodeEngine();
    }
}
