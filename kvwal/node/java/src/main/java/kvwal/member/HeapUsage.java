package kvwal.member;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.partition.IPartitionService;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.MapServiceContext;
import com.hazelcast.map.impl.PartitionContainer;
import com.hazelcast.map.impl.recordstore.RecordStore;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import kvwal.node.HazelcastInternals;

/** Heap usage of maps. Hazelcast's own statistics give the same numbers, but wait for operations under way. */
public final class HeapUsage {
    private HeapUsage() { }

    /**
     * Entries of each map in this member's memory, backups included, and about how many bytes they take, by Hazelcast's count. Of
     * more than `most` maps only the largest are listed, the others summed as `rest`. Names that begin with `hidden` are left
     * out.
     */
    public static Map<String, long[]> of(HazelcastInstance instance, int most, String hidden, String rest) {
        MapServiceContext maps = HazelcastInternals.engine(instance)
            .<MapService>getService(MapService.SERVICE_NAME).getMapServiceContext();
        Map<String, long[]> found = new HashMap<>();
        for (PartitionContainer partition : maps.getPartitionContainers()) {
            for (RecordStore<?> store : partition.getAllRecordStores()) {
                long[] taken = found.computeIfAbsent(store.getName(), name -> new long[2]);
                taken[0] += store.size();
                taken[1] += store.getOwnedEntryCost();
            }
        }
        found.keySet().removeIf(name -> name.startsWith(hidden));
        return largest(found, most, rest);
    }

    /**
     * Bytes of all entries of partitions that this member owns, and of all that it holds, backups included. The members' own
     * maps count, and those without a log.
     */
    public static long[] total(HazelcastInstance instance) {
        MapServiceContext maps = HazelcastInternals.engine(instance)
            .<MapService>getService(MapService.SERVICE_NAME).getMapServiceContext();
        IPartitionService partitions = HazelcastInternals.engine(instance).getPartitionService();
        long[] bytes = new long[2];
        for (PartitionContainer partition : maps.getPartitionContainers()) {
            boolean owned = partitions.getPartition(partition.getPartitionId(), false).isLocal();
            for (RecordStore<?> store : partition.getAllRecordStores()) {
                long taken = store.getOwnedEntryCost();
                bytes[0] += owned ? taken : 0;
                bytes[1] += taken;
            }
        }
        return bytes;
    }

    private static Map<String, long[]> largest(Map<String, long[]> found, int most, String rest) {
        List<Map.Entry<String, long[]>> ordered = found.entrySet().stream()
            .sorted(Comparator.comparingLong((Map.Entry<String, long[]> each) -> each.getValue()[1]).reversed()).toList();
        Map<String, long[]> told = new TreeMap<>();
        for (Map.Entry<String, long[]> each : ordered) {
            long[] into = told.computeIfAbsent(told.size() < most ? each.getKey() : rest, name -> new long[2]);
            into[0] += each.getValue()[0];
            into[1] += each.getValue()[1];
        }
        return told;
    }
}
