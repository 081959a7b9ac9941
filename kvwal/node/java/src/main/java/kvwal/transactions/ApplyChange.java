package kvwal.transactions;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.serialization.impl.HeapData;
import com.hazelcast.map.EntryProcessor;
import com.hazelcast.map.ExtendedMapEntry;
import com.hazelcast.map.impl.LazyMapEntry;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import kvwal.log.LogContext;
import kvwal.node.HazelcastInternals;
import kvwal.node.MemberTask;
import kvwal.node.TaskIds;

/** Task: apply one change of an intent to its key. Answers false if the sender no longer expands the intent. */
public final class ApplyChange extends MemberTask implements EntryProcessor<Object, Object, Boolean> {
    private String intent;
    private String expander;
    private int change;
    private Data value;
    private long expires;
    private boolean isBackup;
    private transient boolean begun;
    private transient Data key;

    public ApplyChange() { }

    public ApplyChange(String intent, String expander, int change, Data value, long expires) {
        this.intent = intent;
        this.expander = expander;
        this.change = change;
        this.value = value;
        this.expires = expires;
    }

    @Override
    public Boolean process(Map.Entry<Object, Object> found) {
        LazyMapEntry<Object, Object> entry = (LazyMapEntry<Object, Object>) found;
        key = entry.getKeyData();
        AppliedChanges applied = AppliedChanges.of(instance);
        if (isBackup) {
            applied.copied(intent, expander, change, key, HazelcastInternals.ahead(instance, key));
            set(entry);
            return true;
        }
        AppliedChanges.Outcome turn = applied.begin(intent, expander, change, key);
        begun = turn == AppliedChanges.Outcome.BEGUN;
        if (begun && !(value == null && entry.hasNullValue())) {
            set(entry);
        }
        return turn != AppliedChanges.Outcome.TAKEN_OVER;
    }

    private void set(ExtendedMapEntry<Object, Object> entry) {
        if (value == null || expires == 0) {
            entry.setValue(value, 0, TimeUnit.MILLISECONDS);
        } else {
            entry.setValue(value, Math.max(1, expires - System.currentTimeMillis()), TimeUnit.MILLISECONDS);
        }
    }

    /** Hazelcast asks when the change is in the owner's memory: a backup follows it, and does nothing by itself. */
    @Override
    public EntryProcessor<Object, Object, Boolean> getBackupProcessor() {
        if (!begun) {
            return null;
        }
        CompletableFuture<Void> settled = LogContext.of(instance).settled(instance, IntentKey.map(intent), key);
        AppliedChanges.of(instance).done(intent, expander, change, key, settled);
        ApplyChange backup = new ApplyChange(intent, expander, change, value, expires);
        backup.isBackup = true;
        return backup;
    }

    @Override
    public int getClassId() {
        return TaskIds.APPLY_CHANGE;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        out.writeString(intent);
        out.writeString(expander);
        out.writeInt(change);
        out.writeByteArray(value == null ? null : value.toByteArray());
        out.writeLong(expires);
        out.writeBoolean(isBackup);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        intent = in.readString();
        expander = in.readString();
        change = in.readInt();
        byte[] bytes = in.readByteArray();
        value = bytes == null ? null : new HeapData(bytes);
        expires = in.readLong();
        isBackup = in.readBoolean();
    }
}
