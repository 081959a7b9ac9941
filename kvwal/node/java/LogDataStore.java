package kvwal.node;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.mapstore.MapStoreContext;
import com.hazelcast.map.impl.mapstore.writethrough.WriteThroughStore;
import java.util.Collection;
import java.util.Collections;
import java.util.Map;
import java.util.UUID;

/** Write-through to the log, with the serialized bytes as they came: nothing is deserialized, no class is needed. */
public final class LogDataStore extends WriteThroughStore {
    private final LogStore log;

    public LogDataStore(MapStoreContext context, LogStore log) {
        super(context);
        this.log = log;
    }

    @Override
    public Object add(Data key, Object value, long expirationTime, long time, UUID transactionId) {
        long expires = expirationTime == Long.MAX_VALUE ? 0 : getUserExpirationTime(expirationTime);
        write(key, toHeapData(value), expires);
        return value;
    }

    @Override
    public void remove(Data key, long time, UUID transactionId) {
        write(key, null, 0);
    }

    @Override
    @SuppressWarnings({"unchecked", "rawtypes"})
    public void removeAll(Collection keys) {
        for (Data key : (Collection<Data>) keys) {
            write(key, null, 0);
        }
    }

    /** What is not in memory is not there. */
    @Override
    public Object load(Data key) {
        log.gate.check();
        return null;
    }

    @Override
    @SuppressWarnings("rawtypes")
    public Map loadAll(Collection keys) {
        log.gate.check();
        return Collections.emptyMap();
    }

    private void write(Data key, Data value, long expires) {
        Data changed = toHeapData(key);
        try {
            log.pass(changed);
            log.write(Words.of(changed), value == null ? null : Words.of(value), expires);
        } catch (RuntimeException error) {
            log.refused(changed);
            throw error;
        }
    }
}
