package kvwal.node;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.operation.PutFromLoadAllOperation;
import com.hazelcast.spi.impl.NodeEngineImpl;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;

/** Fills memory from the log: with the operation that Hazelcast's own loading uses, which asks no store and waits at no gate. */
public final class Loader {
    private static final int UNDER_WAY = 1024;

    private final NodeEngineImpl engine;
    private final Semaphore room = new Semaphore(UNDER_WAY);
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    public Loader(HazelcastInstance instance) {
        engine = Members.engine(instance);
    }

    /** Puts entries (MessagePack, as in a block of the log, no deletes) into a map; returns when they are on their way. */
    public void load(String map, byte[] payload) {
        Map<Integer, List<Data>> lasting = new HashMap<>();
        Map<Integer, List<Data>> expiring = new HashMap<>();
        Entries.Reader reader = new Entries.Reader(payload);
        for (int i = 0; i < reader.count(); i++) {
            Entries.Entry entry = reader.next();
            Data value = Words.toData(entry.valueClass(), entry.value());
            if (entry.keyClass().equals(Schemas.KEY_CLASS)) {
                Schemas.restore(engine, value);
                continue;
            }
            Data key = Words.toData(entry.keyClass(), entry.key());
            List<Data> mine = (entry.expires() != 0 ? expiring : lasting)
                .computeIfAbsent(engine.getPartitionService().getPartitionId(key), partition -> new ArrayList<>());
            mine.add(key);
            mine.add(value);
            if (entry.expires() != 0) {
                mine.add(engine.getSerializationService().toData(entry.expires()));
            }
        }
        lasting.forEach((partition, entries) -> send(map, partition, entries, false));
        expiring.forEach((partition, entries) -> send(map, partition, entries, true));
    }

    private void send(String map, int partition, List<Data> entries, boolean expiring) {
        room.acquireUninterruptibly();
        engine.getOperationService()
            .invokeOnPartitionAsync(MapService.SERVICE_NAME, new PutFromLoadAllOperation(map, entries, expiring), partition)
            .whenCompleteAsync((answer, error) -> {
                room.release();
                if (error != null) {
                    failure.compareAndSet(null, error);
                }
            }, Runnable::run);
    }

    /** Returns when all that was loaded is in memory; throws if any of it is not. */
    public void drain() {
        room.acquireUninterruptibly(UNDER_WAY);
        room.release(UNDER_WAY);
        Throwable error = failure.get();
        if (error != null) {
            throw new IllegalStateException("memory could not be loaded: " + error, error);
        }
    }
}
