package kvwal.transactions.steps;

import com.hazelcast.internal.nio.IOUtil;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.EntryProcessor;
import com.hazelcast.map.ExtendedMapEntry;
import com.hazelcast.map.impl.LazyMapEntry;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import kvwal.node.TaskIds;

/**
 * Task: make the changes of a transaction, each of which the transaction has still locked the key. A change and the end of its
 * lock come together, in the owner and in each backup. So a change is made once, and never over a later one.
 *
 * The answer is the greatest timestamp of the changes in the log, 0 if nothing had to be logged, or UNKNOWN.
 */
public final class ApplyChanges extends TransactionTask {
    /** Change of one key: null for a delete; `left` are the milliseconds until the entry expires, 0 for never. */
    public record Change(Data value, long left) { }

    /** Answer where another member made the changes, or some of them were made before. */
    public static final long UNKNOWN = -1;

    private Map<Data, Change> changes = new LinkedHashMap<>();
    private final transient Map<Data, Change> made = new HashMap<>();
    /** A change was made that needs an entry in the log: a delete of an absent key needs none. */
    private transient boolean isLogged;

    public ApplyChanges() { }

    public ApplyChanges(String intent, Map<Data, Change> changes) {
        this.intent = intent;
        this.changes = changes;
    }

    @Override
    Collection<Data> keys() {
        return changes.keySet();
    }

    @Override
    Set<Data> asked() {
        return changes.keySet();
    }

    @Override
    TransactionTask part(Collection<Data> keys) {
        Map<Data, Change> some = new LinkedHashMap<>();
        keys.forEach(key -> some.put(key, changes.get(key)));
        return new ApplyChanges(intent, some);
    }

    @Override
    public Long process(Map.Entry<Object, Object> found) {
        LazyMapEntry<Object, Object> entry = (LazyMapEntry<Object, Object>) found;
        Data key = entry.getKeyData();
        Change change = changes.get(key);
        if (change == null || !isBackup && IntentKey.hasLocks(intent) && !locks().has(key)) {
            return null;
        }
        made.put(key, change);
        if (change.value != null || !entry.hasNullValue()) {
            isLogged = true;
            set(entry, change);
        }
        if (isBackup && IntentKey.hasLocks(intent)) {
            release(List.of(key));
        }
        return null;
    }

    private static void set(ExtendedMapEntry<Object, Object> entry, Change change) {
        entry.setValue(change.value, change.value == null ? 0 : change.left, TimeUnit.MILLISECONDS);
    }

    @Override
    void begin() {
        made.clear();
    }

    @Override
    long answer(long said, long timestamp) {
        boolean isKnown = made.size() == changes.size() && (timestamp > 0 || !isLogged);
        return isKnown ? timestamp : UNKNOWN;
    }

    @Override
    void end() {
        if (!made.isEmpty() && IntentKey.hasLocks(intent)) {
            release(made.keySet());
        }
    }

    @Override
    public EntryProcessor<Object, Object, Long> getBackupProcessor() {
        if (made.isEmpty()) {
            return null;
        }
        ApplyChanges backup = new ApplyChanges(intent, made);
        backup.isBackup = true;
        return backup;
    }

    @Override
    public int getClassId() {
        return TaskIds.APPLY_CHANGES;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        super.writeData(out);
        out.writeInt(changes.size());
        for (Map.Entry<Data, Change> change : changes.entrySet()) {
            IOUtil.writeData(out, change.getKey());
            IOUtil.writeData(out, change.getValue().value);
            out.writeLong(change.getValue().left);
        }
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        super.readData(in);
        int count = in.readInt();
        for (int i = 0; i < count; i++) {
            changes.put(IOUtil.readData(in), new Change(IOUtil.readData(in), in.readLong()));
        }
    }
}
