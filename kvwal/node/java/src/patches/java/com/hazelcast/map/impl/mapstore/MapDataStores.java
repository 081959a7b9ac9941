package com.hazelcast.map.impl.mapstore;

import com.hazelcast.map.impl.mapstore.writebehind.WriteBehindProcessor;
import com.hazelcast.map.impl.mapstore.writebehind.WriteBehindStore;
import com.hazelcast.map.impl.mapstore.writethrough.WriteThroughStore;
import kvwal.log.LogDataStore;
import kvwal.log.LogStore;

/**
 * Patch of Hazelcast's factory: a map whose store is kvwal's gets LogDataStore, every other map Hazelcast's own store. No other
 * place hands out the serialized bytes of keys and values.
 */
public final class MapDataStores {
    @SuppressWarnings("rawtypes")
    public static final MapDataStore EMPTY_MAP_DATA_STORE = new EmptyMapDataStore();

    private MapDataStores() { }

    @SuppressWarnings({"unchecked", "rawtypes"})
    public static <K, V> MapDataStore<K, V> createWriteBehindStore(MapStoreContext context, int partition,
                                                                   WriteBehindProcessor processor) {
        return (MapDataStore<K, V>) new WriteBehindStore(context, partition, processor);
    }

    @SuppressWarnings("unchecked")
    public static <K, V> MapDataStore<K, V> createWriteThroughStore(MapStoreContext context) {
        Object store = context.getMapStoreWrapper().getImpl();
        if (store instanceof LogStore) {
            return (MapDataStore<K, V>) new LogDataStore(context, (LogStore) store);
        }
        return (MapDataStore<K, V>) new WriteThroughStore(context);
    }
}
