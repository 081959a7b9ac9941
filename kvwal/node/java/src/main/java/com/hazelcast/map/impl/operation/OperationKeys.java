package com.hazelcast.map.impl.operation;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.ReadonlyOperation;

/** Which entries an operation's answer shows. Stands in Hazelcast's package, because only there the key of a read can be seen. */
public final class OperationKeys {
    private OperationKeys() { }

    /** The key of an operation on one key, else null. */
    public static Data one(Operation operation) {
        if (operation instanceof ReadonlyKeyBasedMapOperation read) {
            return read.dataKey;
        }
        return operation instanceof KeyBasedMapOperation change ? change.getKey() : null;
    }

    /** Whether an operation on many keys answers with something of them: a read does, an entry processor does, `put_all` and `clear` do not. */
    public static boolean showsMany(Operation operation) {
        return operation instanceof ReadonlyOperation || operation instanceof MultipleEntryOperation
            || operation instanceof PartitionWideEntryOperation;
    }
}
