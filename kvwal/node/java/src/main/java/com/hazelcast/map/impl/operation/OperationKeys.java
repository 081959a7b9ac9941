package com.hazelcast.map.impl.operation;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.ReadonlyOperation;

/** Keys that the response of an operation shows. In Hazelcast's package, because only there the key of a read is visible. */
public final class OperationKeys {
    private OperationKeys() { }

    /** The key of an operation on one key, else null. */
    public static Data one(Operation operation) {
        if (operation instanceof ReadonlyKeyBasedMapOperation read) {
            return read.dataKey;
        }
        return operation instanceof KeyBasedMapOperation change ? change.getKey() : null;
    }

    /**
     * Whether the response of an operation on many keys shows entries: of a read or an entry processor yes, of `put_all` and
     * `clear` no.
     */
    public static boolean showsMany(Operation operation) {
        return operation instanceof ReadonlyOperation || operation instanceof MultipleEntryOperation
            || operation instanceof PartitionWideEntryOperation;
    }
}
