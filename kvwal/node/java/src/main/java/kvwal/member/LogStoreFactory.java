package kvwal.member;

import com.hazelcast.map.EntryLoader;
import com.hazelcast.map.MapStoreFactory;
import java.util.Properties;
import kvwal.log.LogContext;
import kvwal.log.LogStore;
import kvwal.transactions.IntentStore;

/** Factory of map stores: Hazelcast calls it when it first meets the name of a map. */
public final class LogStoreFactory implements MapStoreFactory<Object, EntryLoader.MetadataAwareValue<Object>> {
    private final LogContext context;

    public LogStoreFactory(LogContext context) {
        this.context = context;
    }

    @Override
    public LogStore newMapStore(String map, Properties properties) {
        return IntentStore.isOf(map) ? new IntentStore(context) : new LogStore(context, map);
    }
}
