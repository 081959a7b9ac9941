package kvwal.transactions.steps;

import com.hazelcast.map.impl.operation.MultipleEntryOperation;
import kvwal.locks.HoldsLocks;
import kvwal.log.Timestamped;
import kvwal.node.TaskIds;

/** Operation that runs a task of a transaction where one partition is. Its caller waits for the backups. */
public final class PartitionStep extends MultipleEntryOperation implements HoldsLocks, Timestamped {
    private transient volatile long timestamp;

    public PartitionStep() { }

    PartitionStep(TransactionTask task) {
        super(task.map(), task.asked(), task);
    }

    @Override
    public void setTimestamp(long given) {
        timestamp = given;
    }

    @Override
    public long timestamp() {
        return timestamp;
    }

    @Override
    public void innerBeforeRun() throws Exception {
        super.innerBeforeRun();
        ((TransactionTask) entryProcessor).begin();
    }

    @Override
    public void afterRunInternal() {
        ((TransactionTask) entryProcessor).end();
        super.afterRunInternal();
    }

    @Override
    public int getSyncBackupCount() {
        return mapContainer.getBackupCount();
    }

    @Override
    public int getAsyncBackupCount() {
        return mapContainer.getAsyncBackupCount();
    }

    @Override
    public int getFactoryId() {
        return TaskIds.FACTORY;
    }

    @Override
    public int getClassId() {
        return TaskIds.PARTITION_STEP;
    }
}
