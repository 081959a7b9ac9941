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
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Phaser;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import kvwal.codec.EntryCodec;
import kvwal.codec.SchemaLog;
import kvwal.codec.ValueCodec;
import kvwal.node.HazelcastInternals;

/**
 * Fills memory from the log: with the operation that Hazelcast's own loading uses, which asks no store and waits at no gate.
 *
 * What it is given is made ready for Hazelcast beside whoever gives it, by a thread of its own, and by the giver when that is busy.
 */
public final class MemoryLoader {
    /** KiB that may be on their way into memory at a time. */
    private static final int UNDER_WAY = 64 << 10;
    private static final int WAITING = 2;

    private final NodeEngineImpl engine;
    private final Semaphore room = new Semaphore(UNDER_WAY);
    private final Phaser given = new Phaser(1);
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final ThreadPoolExecutor beside = new ThreadPoolExecutor(1, 1, 1, TimeUnit.SECONDS,
        new ArrayBlockingQueue<>(WAITING), MemoryLoader::thread, new ThreadPoolExecutor.CallerRunsPolicy());

    public MemoryLoader(HazelcastInstance instance) {
        engine = HazelcastInternals.engine(instance);
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "kvwal-loader");
        thread.setDaemon(true);
        return thread;
    }

    /** Puts entries (MessagePack, as in a block of the log, no deletes) into a map; returns when they are taken. */
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
     * The same of entries that have their classes in common, in columns: all keys and all values one behind the other, each with
     * the offsets (int32, little-endian) where one begins and the last one ends, and the ends (int64), null if there are none.
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
                // Errors, too: what fills memory runs out of it, and nobody may take memory for whole then.
                failure.compareAndSet(null, error);
            } finally {
                given.arriveAndDeregister();
            }
        });
    }

    /** Byte strings one behind the other. */
    public static final class Column {
        private final byte[] bytes;
        private final ByteBuffer offsets;
        private final int base;

        public Column(byte[] bytes, byte[] offsets) {
            this.bytes = bytes;
            this.offsets = ByteBuffer.wrap(offsets).order(ByteOrder.LITTLE_ENDIAN);
            this.base = this.offsets.getInt(0);
        }

        public int count() {
            return offsets.capacity() / 4 - 1;
        }

        /** The one at `i`, as Hazelcast has what is of this class. */
        public Data get(String name, int i) {
            int from = offsets.getInt(4 * i);
            return ValueCodec.toData(name, bytes, from - base, offsets.getInt(4 * i + 4) - from);
        }
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
            room.release(taken); // or `drain` would wait for it
            throw error;
        }
        put.whenCompleteAsync((answer, error) -> {
            room.release(taken);
            if (error != null) {
                failure.compareAndSet(null, error);
            }
        }, Runnable::run);
    }

    /** Returns when all that was loaded is in memory; throws if any of it is not. */
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
    }
}
