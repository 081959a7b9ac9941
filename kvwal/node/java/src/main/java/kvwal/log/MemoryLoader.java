package kvwal.log;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.operation.PutFromLoadAllOperation;
import com.hazelcast.spi.impl.NodeEngineImpl;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Phaser;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import kvwal.codec.Column;
import kvwal.codec.EntryCodec;
import kvwal.codec.SchemaLog;
import kvwal.codec.ValueCodec;
import kvwal.node.DaemonThreads;
import kvwal.node.HazelcastInternals;

/**
 * Loads entries of the logs into Hazelcast's memory, with the operation that Hazelcast's own loading uses. That operation calls
 * no map store and passes no gate.
 *
 * A thread of its own prepares the entries; the caller's thread helps when that one is busy.
 */
public final class MemoryLoader {
    /** Most KiB on their way into memory at a time: little beside the heap, for maps may take most of it. */
    private static final int UNDER_WAY = (int) Math.min(64 << 10, Math.max(1, Runtime.getRuntime().maxMemory() >> 10 + 5));
    private static final int WAITING = 2;
    /** Most bytes of a batch. The heap holds each batch that waits as bytes and as entries. */
    private static final long BATCH_BYTES = Math.min(32 << 20, Runtime.getRuntime().maxMemory() >> 7);

    private final NodeEngineImpl engine;
    private final Semaphore room = new Semaphore(UNDER_WAY);
    private final Phaser given = new Phaser(1);
    private final Set<String> maps = ConcurrentHashMap.newKeySet();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final ThreadPoolExecutor beside = new ThreadPoolExecutor(1, 1, 1, TimeUnit.SECONDS,
        new ArrayBlockingQueue<>(WAITING), DaemonThreads.named("kvwal-loader"), new ThreadPoolExecutor.CallerRunsPolicy());

    public MemoryLoader(HazelcastInstance instance) {
        engine = HazelcastInternals.engine(instance);
    }

    /** The bytes of keys and values that one call of `load` should have at most. */
    public static long batchBytes() {
        return BATCH_BYTES;
    }

    /**
     * Puts entries (MessagePack, as in a block of the log, no deletes) into a map. Returns when they are accepted, not when they
     * are in.
     */
    public void load(String map, byte[] payload) {
        give(() -> {
            Batch batch = new Batch(map);
            EntryCodec.Reader reader = new EntryCodec.Reader(payload);
            for (int i = 0; i < reader.count(); i++) {
                EntryCodec.Entry entry = reader.next();
                batch.add(entry.keyClass(), ValueCodec.toData(entry.keyClass(), entry.key()),
                    ValueCodec.toData(entry.valueClass(), entry.value()), entry.expires());
            }
            batch.send();
        });
    }

    /**
     * As `load` of entries with common classes, in columns: see Column. `expires` has their expiry times (int64), null if there
     * are none.
     */
    public void load(String map, String keyClass, String valueClass, byte[] keys, byte[] keyOffsets,
                     byte[] values, byte[] valueOffsets, byte[] expires) {
        give(() -> {
            Batch batch = new Batch(map);
            Column key = new Column(keys, keyOffsets);
            Column value = new Column(values, valueOffsets);
            ByteBuffer ends = expires == null ? null : ByteBuffer.wrap(expires).order(ByteOrder.LITTLE_ENDIAN);
            for (int i = 0; i < key.count(); i++) {
                batch.add(keyClass, key.get(keyClass, i), value.get(valueClass, i), ends == null ? 0 : ends.getLong(8 * i));
            }
            batch.send();
        });
    }

    private void give(Runnable work) {
        given.register();
        beside.execute(() -> {
            try {
                work.run();
            } catch (Throwable error) {
                // Errors too: loading may use up the heap, and memory is not whole then.
                failure.compareAndSet(null, error);
            } finally {
                given.arriveAndDeregister();
            }
        });
    }

    /** Entries of a map, by partition. */
    private final class Batch {
        private final String map;
        private final Map<Integer, List<Data>> lasting = new HashMap<>();
        private final Map<Integer, List<Data>> expiring = new HashMap<>();

        Batch(String map) {
            this.map = map;
        }

        void add(String keyClass, Data key, Data value, long expires) {
            if (keyClass.equals(SchemaLog.KEY_CLASS)) {
                SchemaLog.restore(engine, value);
                return;
            }
            List<Data> mine = (expires != 0 ? expiring : lasting)
                .computeIfAbsent(engine.getPartitionService().getPartitionId(key), partition -> new ArrayList<>());
            mine.add(key);
            mine.add(value);
            if (expires != 0) {
                mine.add(engine.getSerializationService().toData(expires));
            }
        }

        void send() {
            lasting.forEach((partition, entries) -> MemoryLoader.this.send(map, partition, entries, false));
            expiring.forEach((partition, entries) -> MemoryLoader.this.send(map, partition, entries, true));
        }
    }

    private void send(String map, int partition, List<Data> entries, boolean expiring) {
        maps.add(map);
        long bytes = 0;
        for (Data entry : entries) {
            bytes += entry.totalSize();
        }
        int taken = (int) Math.min(bytes / 1024 + 1, UNDER_WAY);
        room.acquireUninterruptibly(taken);
        CompletableFuture<Object> put;
        try {
            put = engine.getOperationService()
                .invokeOnPartitionAsync(MapService.SERVICE_NAME, new PutFromLoadAllOperation(map, entries, expiring), partition);
        } catch (RuntimeException | Error error) {
            room.release(taken); // `drain` waits for all of it
            throw error;
        }
        put.whenCompleteAsync((answer, error) -> {
            room.release(taken);
            if (error != null) {
                failure.compareAndSet(null, error);
            }
        }, Runnable::run);
    }

    /**
     * Returns when all entries are in memory; throws if one of them is not. The maps then exist for clients that ask which maps
     * there are: Hazelcast would know them only after their first use.
     */
    public void drain() {
        given.arriveAndAwaitAdvance();
        room.acquireUninterruptibly(UNDER_WAY);
        room.release(UNDER_WAY);
        Throwable error = failure.get();
        if (error instanceof Error) {
            throw (Error) error;
        }
        if (error != null) {
            throw new IllegalStateException("memory could not be loaded: " + error, error);
        }
        maps.forEach(engine.getHazelcastInstance()::getMap);
    }
}
