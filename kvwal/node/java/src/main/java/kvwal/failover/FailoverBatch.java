package kvwal.failover;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.util.Clock;
import com.hazelcast.map.impl.MapServiceContext;
import com.hazelcast.map.impl.record.Record;
import com.hazelcast.map.impl.recordstore.RecordStore;
import com.hazelcast.map.impl.recordstore.expiry.ExpiryMetadata;
import com.hazelcast.spi.impl.NodeEngineImpl;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import kvwal.codec.EntryCodec;
import kvwal.codec.ValueCodec;
import kvwal.locks.TransactionLocks;
import kvwal.log.LogStore;
import kvwal.log.PendingEntry;

/**
 * Batch of a failover: keys of one partition of a map, appended to the log a piece at a time. `take` runs where no operation
 * changes the partition. The thread that made the batch calls all else, and waits for the log there.
 */
public final class FailoverBatch {
    private static final int AT_ONCE = 256;
    private static final int BYTES_AT_ONCE = 256 << 10;
    private static final String SERVICE = "kvwal.failover";
    private static final AtomicLong NUMBERS = new AtomicLong();

    private final long number = NUMBERS.incrementAndGet();
    private final NodeEngineImpl engine;
    private final MapServiceContext maps;
    private final String map;
    private final int partition;
    private final LogStore log;
    private List<Data> keys;
    /** Keys that transactions change now: an entry after an intent would hide the change when memory is filled. */
    private final List<Data> locked = new ArrayList<>();
    private final boolean deletes;
    private final Thread writer = Thread.currentThread();
    private int next;
    private long count;
    private List<PendingEntry> sent = List.of();

    FailoverBatch(NodeEngineImpl engine, MapServiceContext maps, String map, int partition, LogStore log, List<Data> keys,
                  boolean deletes) {
        this.engine = engine;
        this.maps = maps;
        this.map = map;
        this.partition = partition;
        this.log = log;
        this.keys = keys;
        this.deletes = deletes;
    }

    /** The batches that a member appends, by number. */
    @SuppressWarnings("unchecked")
    static Map<Long, FailoverBatch> running(HazelcastInstance instance) {
        return (Map<Long, FailoverBatch>) instance.getUserContext()
            .computeIfAbsent(SERVICE, name -> new ConcurrentHashMap<Long, FailoverBatch>());
    }

    long number() {
        return number;
    }

    synchronized boolean isLeft() {
        return next < keys.size();
    }

    /** One of the keys: it says at which partition `take` has to run. */
    synchronized Data key() {
        return keys.get(0);
    }

    synchronized long count() {
        return count;
    }

    /** Sends the next piece, if there is room; never blocks. Throws what the log would throw. */
    public synchronized void take() {
        if (!sent.isEmpty()) {
            return; // the task arrived twice
        }
        log.checkWritable(key());
        RecordStore<?> store = maps.getExistingRecordStore(partition, map);
        List<byte[]> entries = new ArrayList<>();
        int bytes = 0;
        int end = next;
        List<Data> met = new ArrayList<>();
        for (; end < keys.size() && entries.size() < AT_ONCE; end++) {
            if (store != null && TransactionLocks.isLocked(engine, store, keys.get(end))) {
                met.add(keys.get(end));
                continue;
            }
            byte[] entry = entry(store, keys.get(end));
            if (entry == null) {
                continue;
            }
            bytes += entry.length;
            if (!entries.isEmpty() && bytes > BYTES_AT_ONCE) {
                break;
            }
            entries.add(entry);
        }
        List<PendingEntry> posted = log.post(key(), entries, writer);
        if (posted != null) {
            sent = posted;
            next = end;
            locked.addAll(met);
            if (next == keys.size()) { // the task waits until the first of them is not locked any more
                keys = List.copyOf(locked);
                locked.clear();
                next = 0;
            }
        }
    }

    /** Null if memory has changed meanwhile: then the owner has logged that change. */
    private byte[] entry(RecordStore<?> store, Data key) {
        Record<?> record = store == null ? null : store.getRecord(key);
        if (deletes) {
            return record == null ? EntryCodec.encode(log.encodeKey(key), null, 0) : null;
        }
        if (record == null) {
            return null;
        }
        return EntryCodec.encode(log.encodeKey(key), ValueCodec.of(maps.toData(record.getValue())), expiry(store, key));
    }

    /** Returns when the piece that was taken is in the log. */
    void await() {
        List<PendingEntry> posted;
        synchronized (this) {
            posted = sent;
            sent = List.of();
            count += posted.size();
        }
        PendingEntry.await(posted);
    }

    /** When an entry expires by the machine's clock, as the log stores it: 0 for never. */
    private static long expiry(RecordStore<?> store, Data key) {
        ExpiryMetadata found = store.getExpirySystem().getExpiryMetadata(key);
        long expires = found == null ? Long.MAX_VALUE : found.getExpirationTime();
        return expires == Long.MAX_VALUE ? 0 : Clock.toSystemCurrentTimeMillis(expires);
    }
}
