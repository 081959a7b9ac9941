package kvwal.failover;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.core.OperationTimeoutException;
import com.hazelcast.internal.partition.IPartition;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.IMap;
import com.hazelcast.map.impl.MapContainer;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.MapServiceContext;
import com.hazelcast.map.impl.record.Record;
import com.hazelcast.map.impl.recordstore.RecordStore;
import com.hazelcast.spi.impl.NodeEngineImpl;
import com.hazelcast.spi.impl.PartitionSpecificRunnable;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import kvwal.codec.Column;
import kvwal.log.LogStore;
import kvwal.node.HazelcastInternals;
import kvwal.transactions.IntentStore;

/**
 * Failover of the partitions that a killed member may have logged and that this member owns now: every entry that memory holds of
 * them is appended to this member's log, and a delete of every key that a log holds and memory does not. Then the lost disk is no
 * longer needed.
 *
 * A FailoverBatch appends on the partition's own thread, as one of the operations of its map. No other change of the partition is
 * under way then, so each entry stands in the log at a time when it was true.
 */
public final class FailoverAppend {
    private static final long LOOK_SECONDS = 5;

    private final HazelcastInstance instance;
    private final NodeEngineImpl engine;
    private final MapServiceContext maps;
    private final BitSet todo = new BitSet();

    /** `partitions`: the bits of a hexadecimal number. */
    public FailoverAppend(HazelcastInstance instance, String partitions) {
        this.instance = instance;
        this.engine = HazelcastInternals.engine(instance);
        this.maps = engine.<MapService>getService(MapService.SERVICE_NAME).getMapServiceContext();
        BigInteger bits = new BigInteger(partitions, 16);
        for (int i = 0; i < bits.bitLength(); i++) {
            todo.set(i, bits.testBit(i) && isOwn(i));
        }
    }

    private boolean isOwn(int partition) {
        IPartition found = engine.getPartitionService().getPartition(partition, false);
        return found.isLocal() && !found.isMigrating();
    }

    /** Whether no partition migrates from or to this member: only then is it worth the work. */
    public boolean isSettled() {
        return !engine.getNode().getPartitionService().hasOnGoingMigrationLocal();
    }

    /** The given partitions that this member owns and has completed so far, as a hexadecimal number. */
    public String partitions() {
        BigInteger bits = BigInteger.ZERO;
        for (int i = todo.nextSetBit(0); i >= 0; i = todo.nextSetBit(i + 1)) {
            bits = bits.setBit(i);
        }
        return bits.toString(16);
    }

    /** Appends every entry that memory holds of the partitions; returns their number when they are in the log. */
    public long puts() {
        long count = 0;
        for (Map.Entry<String, MapContainer> found : maps.getMapContainers().entrySet()) {
            LogStore log = log(found.getValue());
            if (log == null || log instanceof IntentStore) { // an intent counts at the time of its first log entry only
                continue;
            }
            for (int partition : todo.stream().toArray()) {
                List<Data> keys = onPartition(partition, () -> keys(found.getKey(), partition));
                count += append(found.getKey(), log, partition, keys, false);
            }
        }
        return count;
    }

    /**
     * Appends a delete of each of these keys that is of the partitions and not in memory; returns their number. The keys are a
     * Column; keys of intents are all of one map.
     */
    public long deletes(String map, String keyClass, byte[] keys, byte[] offsets) {
        MapContainer container = maps.getExistingMapContainer(map);
        LogStore log = container == null ? null : log(container);
        if (log == null) {
            return 0;
        }
        Map<Integer, List<Data>> found = new HashMap<>();
        Column column = new Column(keys, offsets);
        for (int i = 0; i < column.count(); i++) {
            Data key = column.get(keyClass, i);
            int partition = engine.getPartitionService().getPartitionId(key);
            if (todo.get(partition)) {
                found.computeIfAbsent(partition, number -> new ArrayList<>()).add(key);
            }
        }
        long count = 0;
        for (Map.Entry<Integer, List<Data>> part : found.entrySet()) {
            List<Data> absent = onPartition(part.getKey(), () -> absent(map, part.getKey(), part.getValue()));
            count += append(map, log, part.getKey(), absent, true);
        }
        return count;
    }

    private static LogStore log(MapContainer container) {
        if (!container.getMapStoreContext().isMapLoader()) {
            return null;
        }
        Object store = container.getMapStoreContext().getMapStoreWrapper().getImpl();
        return store instanceof LogStore ? (LogStore) store : null;
    }

    @SuppressWarnings("unchecked")
    private List<Data> keys(String map, int partition) {
        List<Data> keys = new ArrayList<>();
        RecordStore<Record<?>> store = maps.getExistingRecordStore(partition, map);
        if (store != null) {
            store.forEach((key, record) -> keys.add(key), false);
            keys.sort(Comparator.comparing(store::isLocked)); // the task runs on the first key: see FailoverBatch
        }
        return keys;
    }

    private List<Data> absent(String map, int partition, List<Data> keys) {
        RecordStore<?> store = maps.getExistingRecordStore(partition, map);
        Predicate<Data> isAbsent = key -> store == null || store.getRecord(key) == null;
        return keys.stream().filter(isAbsent).collect(Collectors.toList());
    }

    private long append(String map, LogStore log, int partition, List<Data> keys, boolean deletes) {
        log.appendSchemas();
        IMap<Object, Object> asked = instance.getMap(map);
        FailoverBatch batch = new FailoverBatch(engine, maps, map, partition, log, keys, deletes);
        while (batch.isLeft() && todo.get(partition)) {
            FailoverBatch.running(instance).put(batch.number(), batch);
            try {
                if (!asked.submitToKey(batch.key(), new AppendBatch(own(), batch.number())).toCompletableFuture().join()) {
                    todo.clear(partition); // another member owns it now
                }
            } catch (CompletionException error) {
                if (!(error.getCause() instanceof OperationTimeoutException)) {
                    throw error.getCause() instanceof RuntimeException ? (RuntimeException) error.getCause() : error;
                }
                todo.clear(partition); // clients lock all of its keys: the next pass tries again
            } finally {
                FailoverBatch.running(instance).remove(batch.number());
            }
            batch.await();
        }
        return batch.count();
    }

    private String own() {
        return instance.getCluster().getLocalMember().getUuid().toString();
    }

    private <T> T onPartition(int partition, Supplier<T> ask) {
        CompletableFuture<T> answer = new CompletableFuture<>();
        engine.getOperationService().execute(new PartitionSpecificRunnable() {
            @Override
            public int getPartitionId() {
                return partition;
            }

            @Override
            public void run() {
                try {
                    answer.complete(ask.get());
                } catch (RuntimeException error) {
                    answer.completeExceptionally(error);
                }
            }
        });
        while (true) {
            try {
                return answer.get(LOOK_SECONDS, TimeUnit.SECONDS);
            } catch (TimeoutException error) {
                if (!instance.getLifecycleService().isRunning()) {
                    throw new HazelcastInstanceNotActiveException("this member leaves");
                }
            } catch (InterruptedException | ExecutionException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
