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

/**
 * Write-through store of a map with a log. It hands on serialized bytes as they arrive, so a member needs no class of a client.
 */
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

    /** Null: memory holds every key of a map with a log. */
    @Override
    public Object load(Data key) {
        log.checkLoaded();
        return null;
    }

    @Override
    @SuppressWarnings("rawtypes")
    public Map loadAll(Collection keys) {
        log.checkLoaded();
        return Collections.emptyMap();
    }

    /** Returns when the log has the changes; within a step, at once: see PendingAppend. */
    private void write(List<LogStore.Change> changes, long expires) {
        PendingChange pending = log.beginPending(changes);
        Runnable refuse = () -> log.refused(pending);
        PendingAppend append = PendingAppend.current();
        try {
            changes.forEach(change -> log.checkWritable(change.key()));
            log.write(changes, expires);
        } catch (RuntimeException error) {
            refuse.run();
            if (append != null) {
                append.drop();
            }
            throw error;
        }
        if (append != null) {
            append.onRefusal(refuse);
        }
    }
}
