package kvwal.locks;

import com.hazelcast.internal.locksupport.operations.UnlockBackupOperation;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.operation.KeyBasedMapOperation;
import com.hazelcast.map.impl.operation.steps.engine.State;
import com.hazelcast.map.impl.operation.steps.engine.Step;
import com.hazelcast.spi.impl.NodeEngineImpl;
import com.hazelcast.spi.impl.operationservice.BackupAwareOperation;
import com.hazelcast.spi.impl.operationservice.Operation;
import java.util.List;
import kvwal.node.TaskIds;

/**
 * Operation of a client: release the lock of a key, of any client. A transaction's lock stays: it says that the transaction's
 * change of the key was not made yet.
 */
public final class ForceUnlock extends KeyBasedMapOperation implements BackupAwareOperation {
    public ForceUnlock() { }

    public ForceUnlock(String map, Data key) {
        super(map, key);
    }

    /** None: it is run at once, and changes no entry. */
    @Override
    public Step<State> getStartingStep() {
        return null;
    }

    @Override
    protected void runInternal() {
        if (TransactionLocks.isLocked((NodeEngineImpl) getNodeEngine(), recordStore, dataKey)) {
            throw new IllegalMonitorStateException("A transaction of the map " + name + " has locked this key, and nobody else"
                + " may end its lock; nothing was unlocked. The transaction ends it by itself.");
        }
        recordStore.forceUnlock(dataKey);
    }

    @Override
    public void afterRunInternal() {
        super.afterRunInternal();
        TransactionLocks.wake((NodeEngineImpl) getNodeEngine(), name, getPartitionId(), List.of(dataKey));
    }

    @Override
    public boolean shouldBackup() {
        return true;
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
    public Operation getBackupOperation() {
        return new UnlockBackupOperation(getServiceNamespace(), dataKey, threadId, getCallerUuid(), true);
    }

    @Override
    public int getFactoryId() {
        return TaskIds.FACTORY;
    }

    @Override
    public int getClassId() {
        return TaskIds.FORCE_UNLOCK;
    }
}
