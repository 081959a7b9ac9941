package kvwal.failover;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.MapServiceContext;
import com.hazelcast.map.impl.record.Record;
import com.hazelcast.map.impl.recordstore.RecordStore;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import kvwal.codec.EntryCodec;
import kvwal.codec.ValueCodec;
import kvwal.log.BatchQueues;
import kvwal.log.LogStore;

/**
 * What is to be appended of some keys of one partition of a map, a piece at a time. `take` is called where nobody else changes the
 * partition; all else by the thread that made this, which waits for the log there.
 */
public final class FailoverBatch {
    private static final int AT_ONCE = 256;
    private static final int BYTES_AT_ONCE = 256 << 10;
    private static final AtomicLong NUMBERS = new AtomicLong();

    private final long number = NUMBERS.incrementAndGet();
    private final MapServiceContext maps;
    private final String map;
    private final int partition;
    private final LogStore log;
    private final List<Data> keys;
    private final boolean deletes;
    private final Thread writer = Thread.currentThread();
    private int next;
    private long count;
    private List<BatchQueues.PendingEntry> letters = List.of();

    FailoverBatch(MapServiceContext maps, String map, int partition, LogStore log, List<Data> keys, boolean deletes) {
        this.maps = maps;
        this.map = map;
        this.partition = partition;
        this.log = log;
        this.keys = keys;
        this.deletes = deletes;
    }

    long number() {
        return number;
    }

    synchronized boolean isLeft() {
        return next < keys.size();
    }

    /** One of the keys: it says where `take` has to be called. */
    Data key() {
        return keys.get(0);
    }

    synchronized long count() {
        return count;
    }

    /** Begins to write the next piece, if there is room; never waits. Throws what the log would. */
    public synchronized void take() {
        if (!letters.isEmpty()) {
            return; // it was asked for twice
        }
        log.pass(key());
        RecordStore<?> store = maps.getExistingRecordStore(partition, map);
        List<byte[]> entries = new ArrayList<>();
        int bytes = 0;
        int end = next;
        for (; end < keys.size() && entries.size() < AT_ONCE; end++) {
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
        List<BatchQueues.PendingEntry> posted = log.post(key(), entries, writer);
        if (posted != null) {
            letters = posted;
            next = end;
        }
    }

    /** Null if memory says otherwise by now: then its owner has logged that. */
    private byte[] entry(RecordStore<?> store, Data key) {
        Record<?> record = store == null ? null : store.getRecord(key);
        if (deletes) {
            return record == null ? EntryCodec.encode(log.word(key), null, 0) : null;
        }
        if (record == null) {
            return null;
        }
        return EntryCodec.encode(log.word(key), ValueCodec.of(maps.toData(record.getValue())), FailoverAppend.end(store, key));
    }

    /** Returns when the piece that was taken is in the log. */
    void await() {
        List<BatchQueues.PendingEntry> posted;
        synchronized (this) {
            posted = letters;
            letters = List.of();
            count += posted.size();
        }
        BatchQueues.await(posted);
    }
}
