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
import com.hazelcast.map.impl.recordstore.expiry.ExpiryMetadata;
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
import kvwal.log.LogStore;
import kvwal.log.MemoryLoader;
import kvwal.member.TaskFactory;
import kvwal.node.HazelcastInternals;
import kvwal.transactions.IntentStore;
import kvwal.transactions.Transactions;

/**
 * Once through the partitions that a killed member may have logged and that this one owns now: what memory holds of them is
 * appended to this member's log, and a delete of what memory does not hold although a log does. Then the lost disk is needed no more.
 *
 * An entry is appended by FailoverBatch, on the partition's own thread, in its turn among the operations of its map: no change of it
 * is on its way then, so it stands in the log where it was true.
 */
public final class FailoverAppend {
    private static final long LOOK_SECONDS = 5;

    private final HazelcastInstance instance;
    private final NodeEngineImpl engine;
    private final MapServiceContext maps;
    private final BitSet todo = new BitSet();

    /** `partitions`: a number whose bits they are, as hexadecimal digits. */
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

    /** Whether no partition is on its way from or to this member: going through them is worth it then. */
    public boolean isSettled() {
        return !engine.getNode().getPartitionService().hasOnGoingMigrationLocal();
    }

    /** Those of the partitions that this member owns and has gone through so far, as hexadecimal digits. */
    public String partitions() {
        BigInteger bits = BigInteger.ZERO;
        for (int i = todo.nextSetBit(0); i >= 0; i = todo.nextSetBit(i + 1)) {
            bits = bits.setBit(i);
        }
        return bits.toString(16);
    }

    /** Appends all that memory holds of them; returns how many entries that were, when they are in the log. */
    public long puts() {
        long count = 0;
        for (Map.Entry<String, MapContainer> found : maps.getMapContainers().entrySet()) {
            LogStore log = log(found.getValue());
            if (log == null || log instanceof IntentStore) { // an intent counts where it was logged first, and at no later time
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
     * Appends a delete of each of these keys, in columns as MemoryLoader takes them, that is of them and not in memory; how many.
     * Keys of intents are all of one map.
     */
    public long deletes(String map, String keyClass, byte[] keys, byte[] offsets) {
        MapContainer container = maps.getExistingMapContainer(map);
        LogStore log = container == null ? null : log(container);
        if (log == null) {
            return 0;
        }
        Map<Integer, List<Data>> found = new HashMap<>();
        MemoryLoader.Column column = new MemoryLoader.Column(keys, offsets);
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
            keys.sort(Comparator.comparing(store::isLocked)); // by the first the others are reached: see FailoverBatch
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
        FailoverBatch turn = new FailoverBatch(maps, map, partition, log, keys, deletes);
        while (turn.isLeft() && todo.get(partition)) {
            Transactions.of(instance).turns().put(turn.number(), turn);
            try {
                if (!asked.submitToKey(turn.key(), new TaskFactory.TakeTurn(own(), turn.number())).toCompletableFuture().join()) {
                    todo.clear(partition); // it has another owner, who looks after it
                }
            } catch (CompletionException error) {
                if (!(error.getCause() instanceof OperationTimeoutException)) {
                    throw error.getCause() instanceof RuntimeException ? (RuntimeException) error.getCause() : error;
                }
                todo.clear(partition); // all its keys are locked by clients: another time
            } finally {
                Transactions.of(instance).turns().remove(turn.number());
            }
            turn.await();
        }
        return turn.count();
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

    /** When an entry ends, as the log has it: 0 for never. */
    static long end(RecordStore<?> store, Data key) {
        ExpiryMetadata found = store.getExpirySystem().getExpiryMetadata(key);
        return found == null || found.getExpirationTime() == Long.MAX_VALUE ? 0 : found.getExpirationTime();
    }
}
