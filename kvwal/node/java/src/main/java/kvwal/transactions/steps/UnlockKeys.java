package kvwal.transactions.steps;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.EntryProcessor;
import java.util.Collection;
import java.util.Map;
import kvwal.node.TaskIds;

/** Task: release the locks that a transaction has on keys. */
public final class UnlockKeys extends KeysTask {
    public UnlockKeys() { }

    public UnlockKeys(String intent, Collection<Data> keys) {
        super(intent, keys);
    }

    @Override
    TransactionTask part(Collection<Data> some) {
        return new UnlockKeys(intent, some);
    }

    @Override
    public Long process(Map.Entry<Object, Object> found) {
        release(keys());
        return null;
    }

    @Override
    public EntryProcessor<Object, Object, Long> getBackupProcessor() {
        return asBackup(new UnlockKeys(intent, keys()));
    }

    @Override
    public int getClassId() {
        return TaskIds.UNLOCK_KEYS;
    }
}
