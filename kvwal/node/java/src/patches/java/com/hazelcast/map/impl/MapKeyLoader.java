package com.hazelcast.map.impl;

import com.hazelcast.internal.cluster.ClusterService;
import com.hazelcast.internal.partition.IPartitionService;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.mapstore.MapStoreContext;
import com.hazelcast.map.impl.operation.MapOperationProvider;
import com.hazelcast.spi.impl.executionservice.ExecutionService;
import com.hazelcast.spi.impl.operationservice.OperationService;
import com.hazelcast.spi.properties.HazelcastProperty;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.function.Function;
import kvwal.log.LogStore;

/**
 * Patch of Hazelcast's class: loads the keys of a map.
 *
 * Hazelcast asks the owner of one partition for all keys of a map, and makes every other partition wait for its answer. If that
 * member is killed, the answer may never come, and the map stays "still loading". A log loads no keys, so each partition waits
 * for the ReadyGate of its own member only.
 */
public class MapKeyLoader {
    /** Hazelcast's MapServiceContextImpl makes a semaphore of it, which nothing acquires here. */
    public static final HazelcastProperty LOADED_KEY_LIMITER_PER_NODE =
        new HazelcastProperty("hazelcast.map.loaded.key.limit.per.node", 50_000);

    private static final Future<?> NOTHING_TO_LOAD = CompletableFuture.completedFuture(null);

    private final String map;

    public MapKeyLoader(String map, OperationService operations, IPartitionService partitions, ClusterService cluster,
                        ExecutionService execution, Function<Object, Data> toData, Semaphore limit) {
        this.map = map;
    }

    /** Done when the member has recovered. Until then Hazelcast sends every operation on the partition back, to be retried. */
    public Future<?> startInitialLoad(MapStoreContext context, int partition) {
        Object store = context.getMapStoreWrapper().getImpl();
        if (!(store instanceof LogStore)) {
            throw new IllegalStateException(
                "The map " + map + " has a store that is not kvwal's: a node of kvwal loads from none.");
        }
        return ((LogStore) store).recovered();
    }

    /** IMap.loadAll: memory already holds everything. */
    public Future<?> startLoading(MapStoreContext context, boolean replace) {
        return NOTHING_TO_LOAD;
    }

    public void trackLoading(boolean last, Throwable failure) { }

    /** Called for each operation that is sent back. */
    public void triggerLoadingWithDelay() { }

    public boolean shouldDoInitialLoad() {
        return false;
    }

    public boolean isKeyLoadFinished() {
        return true;
    }

    public void promoteToLoadedOnMigration() { }

    public void setMaxBatch(int most) { }

    public void setMaxSize(int most) { }

    public void setHasBackup(boolean has) { }

    public void setMapOperationProvider(MapOperationProvider provider) { }
}
