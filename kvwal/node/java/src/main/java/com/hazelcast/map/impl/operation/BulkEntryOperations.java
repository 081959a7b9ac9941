package com.hazelcast.map.impl.operation;

import com.hazelcast.internal.partition.IPartitionService;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.EntryProcessor;
import com.hazelcast.query.Predicate;
import com.hazelcast.spi.impl.operationservice.Operation;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.IntFunction;
import kvwal.node.TaskIds;

/**
 * Hazelcast's operations that run an entry processor on many keys of a partition, with backups to wait for: Hazelcast's own never
 * wait for one, with no setting of the map. In Hazelcast's package, because only there their keys are visible.
 */
public final class BulkEntryOperations {
    private BulkEntryOperations() { }

    /**
     * Operation for each partition, with backups to wait for. `operations` makes those that have them anyway; `sample` is one of
     * these.
     */
    public static IntFunction<Operation> withBackups(Operation sample, IntFunction<Operation> operations,
                                                      IPartitionService partitions) {
        if (sample.getClass() == MultipleEntryOperation.class) {
            MultipleEntryOperation several = (MultipleEntryOperation) sample;
            Map<Integer, Set<Data>> keys = split(several.keys, partitions);
            return partition -> new OnKeys(several.getName(), keys.getOrDefault(partition, Set.of()), several.entryProcessor);
        }
        if (sample.getClass() == PartitionWideEntryWithPredicateOperation.class) {
            PartitionWideEntryOperation some = (PartitionWideEntryOperation) sample;
            return partition -> new OnMatches(some.getName(), some.entryProcessor, some.getPredicate());
        }
        if (sample.getClass() == PartitionWideEntryOperation.class) {
            PartitionWideEntryOperation all = (PartitionWideEntryOperation) sample;
            return partition -> new OnAll(all.getName(), all.entryProcessor);
        }
        return operations;
    }

    /**
     * Keys by partition: Hazelcast sends all keys to every member, but to every partition that would be hundreds of times too
     * many.
     */
    private static Map<Integer, Set<Data>> split(Set<Data> keys, IPartitionService partitions) {
        Map<Integer, Set<Data>> found = new HashMap<>();
        for (Data key : keys) {
            found.computeIfAbsent(partitions.getPartitionId(key), partition -> new HashSet<>()).add(key);
        }
        return found;
    }

    /** On these keys. */
    public static final class OnKeys extends MultipleEntryOperation {
        public OnKeys() { }

        OnKeys(String map, Set<Data> keys, EntryProcessor<?, ?, ?> processor) {
            super(map, keys, processor);
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
            return TaskIds.BULK_ON_KEYS;
        }
    }

    /** On all keys. */
    public static final class OnAll extends PartitionWideEntryOperation {
        public OnAll() { }

        OnAll(String map, EntryProcessor<?, ?, ?> processor) {
            super(map, processor);
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
            return TaskIds.BULK_ON_ALL;
        }
    }

    /** On the keys of the entries that a predicate finds. */
    public static final class OnMatches extends PartitionWideEntryWithPredicateOperation {
        public OnMatches() { }

        OnMatches(String map, EntryProcessor<?, ?, ?> processor, Predicate<?, ?> predicate) {
            super(map, processor, predicate);
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
            return TaskIds.BULK_ON_MATCHES;
        }
    }
}
