package kvwal.transactions.steps;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.EntryProcessor;
import java.util.Collection;
import java.util.Map;
import kvwal.log.LogContext;
import kvwal.node.HazelcastInternals;
import kvwal.node.LoggedMaps;
import kvwal.node.TaskIds;

/**
 * Task: lock the keys for a transaction, all that are in one partition or none. Answers with a timestamp between the earlier and
 * the later changes of the partition (LogContext), or HELD.
 */
public final class LockKeys extends KeysTask {
    /** Answer where another transaction, or a client, has locked one of the keys. */
    public static final long HELD = -1;

    private transient boolean taken;

    public LockKeys() { }

    public LockKeys(String intent, Collection<Data> keys) {
        super(intent, keys);
    }

    @Override
    TransactionTask part(Collection<Data> some) {
        return new LockKeys(intent, some);
    }

    @Override
    public Long process(Map.Entry<Object, Object> found) {
        if (isBackup) {
            locks().copy(keys());
            return null;
        }
        long timestamp = LoggedMaps.has(map())
            ? LogContext.of(instance).timestamp(HazelcastInternals.node(instance), map(), partition()) : 0;
        taken = locks().take(keys());
        return taken ? timestamp : HELD;
    }

    @Override
    public EntryProcessor<Object, Object, Long> getBackupProcessor() {
        return taken ? asBackup(new LockKeys(intent, keys())) : null;
    }

    @Override
    public int getClassId() {
        return TaskIds.LOCK_KEYS;
    }
}
