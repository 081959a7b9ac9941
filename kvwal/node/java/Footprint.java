package kvwal.node;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.MapServiceContext;
import com.hazelcast.map.impl.PartitionContainer;
import com.hazelcast.map.impl.recordstore.RecordStore;
import java.util.Map;
import java.util.TreeMap;

/** What maps take of this member's memory. Hazelcast's own statistics say the same, but wait for partitions that are under way. */
public final class Footprint {
    private Footprint() { }

    /** Of each map how many entries are here, copies of others' included, and about how many bytes these take, by Hazelcast's count. */
    public static Map<String, long[]> of(HazelcastInstance instance) {
        MapServiceContext maps = Members.engine(instance).<MapService>getService(MapService.SERVICE_NAME).getMapServiceContext();
        Map<String, long[]> found = new TreeMap<>();
        for (PartitionContainer partition : maps.getPartitionContainers()) {
            for (RecordStore<?> store : partition.getAllRecordStores()) {
                long[] taken = found.computeIfAbsent(store.getName(), name -> new long[2]);
                taken[0] += store.size();
                taken[1] += store.getOwnedEntryCost();
            }
        }
        return found;
    }
}
