package com.hazelcast.map.impl.operation;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.MapDataSerializerHook;
import com.hazelcast.map.impl.record.Record;
import com.hazelcast.map.impl.recordstore.DefaultRecordStore;
import com.hazelcast.spi.impl.operationservice.BackupOperation;
import java.util.ArrayList;
import java.util.List;

/**
 * Stands before Hazelcast's class of this name on the class path: what a backup does of `clear`.
 *
 * Hazelcast's deletes the keys in the backup's store too, the only change that does. The owner's log has these deletes; the backup's
 * own would be stamped after what the owner has been told to put since, and hide it when memory is filled from the logs. And a member
 * may write no log of a partition that it does not own: it was sent back (see OwnershipFence), and the owner waited for it in vain.
 */
@SuppressWarnings("rawtypes")
public class ClearBackupOperation extends MapOperation implements BackupOperation {
    public ClearBackupOperation() {
        this(null);
    }

    public ClearBackupOperation(String name) {
        super(name);
        createRecordStoreOnDemand = false;
    }

    @Override
    protected void runInternal() {
        if (recordStore == null) {
            return;
        }
        DefaultRecordStore memory = (DefaultRecordStore) (Object) recordStore;
        List<Data> keys = new ArrayList<>();
        List<Record> records = new ArrayList<>();
        memory.forEach((key, record) -> {
            if (!memory.isLocked(key)) {
                keys.add(key);
                records.add(record);
            }
        }, true);
        memory.removeBulk(keys, records, true);
    }

    @Override
    public int getClassId() {
        return MapDataSerializerHook.CLEAR_BACKUP;
    }
}
