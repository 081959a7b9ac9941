package kvwal.transactions.steps;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.EntryProcessor;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.recordstore.RecordStore;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.Collection;
import java.util.Set;
import java.util.UUID;
import kvwal.locks.TransactionLocks;
import kvwal.node.HazelcastInternals;
import kvwal.node.MemberTask;

/** Task of a transaction on keys of its map. It is split by partition. */
public abstract class TransactionTask extends MemberTask implements EntryProcessor<Object, Object, Long> {
    /** Key of the transaction's intent. */
    String intent;
    /** Whether this runs in a backup: the owner has decided. */
    boolean isBackup;

    /** The keys that it is about. */
    abstract Collection<Data> keys();

    /** The same task for a part of the keys. */
    abstract TransactionTask part(Collection<Data> keys);

    /** The keys for which Hazelcast calls `process`. */
    Set<Data> asked() {
        return Set.of(keys().iterator().next());
    }

    /** The owner is about to run it, for the first time or again. */
    void begin() { }

    /** The owner has run it: memory has the changes, and the backups were sent. */
    void end() { }

    /**
     * The answer for a partition where `process` answered `said`, 0 for nothing. `timestamp` is that of the changes in the log;
     * 0 if nothing was logged, or another member ran the task.
     */
    long answer(long said, long timestamp) {
        return said;
    }

    String map() {
        return IntentKey.map(intent);
    }

    int partition() {
        return HazelcastInternals.node(instance).getPartitionService().getPartitionId(keys().iterator().next());
    }

    RecordStore<?> memory() {
        return HazelcastInternals.engine(instance).<MapService>getService(MapService.SERVICE_NAME).getMapServiceContext()
            .getRecordStore(partition(), map());
    }

    /** The locks that the transaction has in the partition of these keys. */
    TransactionLocks locks() {
        return new TransactionLocks(memory(), UUID.fromString(IntentKey.expander(intent)), IntentKey.number(intent));
    }

    /** Releases the transaction's locks of these keys, and runs what waits for them. */
    void release(Collection<Data> keys) {
        locks().release(keys);
        if (!isBackup) {
            TransactionLocks.wake(HazelcastInternals.engine(instance), map(), partition(), keys);
        }
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        out.writeString(intent);
        out.writeBoolean(isBackup);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        intent = in.readString();
        isBackup = in.readBoolean();
    }
}
