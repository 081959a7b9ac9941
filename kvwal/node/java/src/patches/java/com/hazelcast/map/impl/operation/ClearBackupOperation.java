package com.hazelcast.map.impl.operation;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.MapDataSerializerHook;
import com.hazelcast.map.impl.record.Record;
import com.hazelcast.map.impl.recordstore.DefaultRecordStore;
import com.hazelcast.spi.impl.operationservice.BackupOperation;
import java.util.ArrayList;
import java.util.List;

/**
 * Patch of Hazelcast's class: applies `clear` on a backup.
 *
 * Hazelcast deletes the keys in the backup's store too, for no other change. The owner's log already has these deletes. The
 * backup's own would have later timestamps than entries that the owner got since, and hide them when memory is loaded from the
 * logs. And a member may not log a partition that it does not own: OwnershipFence refused, and the owner waited in vain.
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
