package kvwal.log;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.mapstore.MapStoreContext;
import com.hazelcast.map.impl.mapstore.writethrough.WriteThroughStore;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import kvwal.backups.PendingChange;

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
        write(List.of(new LogStore.Change(toHeapData(key), toHeapData(value))), expires);
        return value;
    }

    @Override
    public void remove(Data key, long time, UUID transactionId) {
        write(List.of(new LogStore.Change(toHeapData(key), null)), 0);
    }

    @Override
    @SuppressWarnings({"unchecked", "rawtypes"})
    public void removeAll(Collection keys) {
        List<LogStore.Change> changes = new ArrayList<>(keys.size());
        for (Data key : (Collection<Data>) keys) {
            changes.add(new LogStore.Change(toHeapData(key), null));
        }
        write(changes, 0);
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

    /** Returns when the log has them, or, within a step that can wait for that, at once: see PendingAppend. */
    private void write(List<LogStore.Change> changes, long expires) {
        PendingChange pending = log.pend(changes);
        Runnable refuse = () -> {
            changes.forEach(change -> log.refused(change.key()));
            if (pending != null) {
                log.gate.pending.settle(pending);
            }
        };
        try {
            changes.forEach(change -> log.pass(change.key()));
            log.write(changes, expires);
        } catch (RuntimeException error) {
            refuse.run();
            if (PendingAppend.here() != null) {
                PendingAppend.here().drop();
            }
            throw error;
        }
        if (PendingAppend.here() != null) {
            PendingAppend.here().onRefusal(refuse);
        }
    }
}
