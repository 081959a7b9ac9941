package kvwal.locks;

import com.hazelcast.internal.locksupport.LockResource;
import com.hazelcast.internal.locksupport.LockStoreImpl;
import com.hazelcast.internal.locksupport.LockSupportService;
import com.hazelcast.internal.locksupport.LockSupportServiceImpl;
import com.hazelcast.internal.locksupport.LockWaitNotifyKey;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.services.ObjectNamespace;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.operation.MapOperation;
import com.hazelcast.map.impl.operation.OperationKeys;
import com.hazelcast.map.impl.recordstore.RecordStore;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import com.hazelcast.spi.impl.NodeEngineImpl;
import com.hazelcast.spi.impl.PartitionSpecificRunnable;
import com.hazelcast.spi.impl.operationparker.impl.OperationParkerImpl;
import com.hazelcast.spi.impl.operationservice.Notifier;
import com.hazelcast.spi.impl.operationservice.WaitNotifyKey;
import java.util.Collection;
import java.util.List;
import java.util.UUID;

/**
 * Locks of one transaction in one partition of a map. They are in Hazelcast's lock store of the map, so backups have them, and
 * they move together with the entries. For a partition's thread only.
 *
 * The owner of such a lock is the member that expands the transaction, and its thread is the transaction's number, which is
 * negative: those of clients are not. Hazelcast releases a transactional lock neither when its owner leaves nor after a time.
 */
public final class TransactionLocks {
    private static final long FOR_EVER = -1;

    private final RecordStore<?> memory;
    private final UUID expander;
    private final long number;

    public TransactionLocks(RecordStore<?> memory, UUID expander, long number) {
        this.memory = memory;
        this.expander = expander;
        this.number = number;
    }

    /** Whether the transaction has locked the key. */
    public boolean has(Data key) {
        return memory.isLockedBy(key, expander, number);
    }

    /** Locks all of these keys, or none if another transaction or a client has locked one of them. */
    public boolean take(Collection<Data> keys) {
        if (!keys.stream().allMatch(key -> memory.canAcquireLock(key, expander, number))) {
            return false;
        }
        keys.forEach(this::lock);
        return true;
    }

    /** Locks all of these keys in a backup, because their owner did. */
    public void copy(Collection<Data> keys) {
        for (Data key : keys) {
            if (!memory.canAcquireLock(key, expander, number)) {
                memory.forceUnlock(key);
            }
            lock(key);
        }
    }

    private void lock(Data key) {
        if (!has(key)) {
            memory.txnLock(key, expander, number, 0, FOR_EVER, false);
        }
    }

    /** Releases the locks that the transaction has on these keys. */
    public void release(Collection<Data> keys) {
        keys.stream().filter(this::has).forEach(key -> memory.unlock(key, expander, number, 0));
    }

    /** Whether the lock is that of a transaction. One of Hazelcast's own transactions ends after a time. */
    public static boolean isOne(LockResource lock) {
        return lock.isLocked() && lock.isTransactional() && lock.getThreadId() < 0
            && lock.getExpirationTime() == Long.MAX_VALUE;
    }

    /** Whether a transaction has locked the key. */
    public static boolean isLocked(NodeEngineImpl engine, RecordStore<?> memory, Data key) {
        return memory.isLocked(key) && isOne(store(engine, memory).getLock(key));
    }

    /**
     * Throws if an operation would change a key that a transaction has locked since the operation began; it is then sent again.
     * To be called before each step of the operation. An operation that has not begun waits for the lock by itself.
     */
    public static void check(NodeEngineImpl engine, MapOperation operation) {
        RecordStore<?> memory = operation.getRecordStore();
        if (memory == null || memory.getLockedEntryCount() == 0) {
            return;
        }
        Data key = OperationKeys.one(operation);
        boolean isMet = key == null ? store(engine, memory).getLocks().stream().anyMatch(TransactionLocks::isOne)
            : isLocked(engine, memory, key);
        if (isMet) {
            throw new RetryableHazelcastException("A transaction is changing a key of this operation.");
        }
    }

    private static LockStoreImpl store(NodeEngineImpl engine, RecordStore<?> memory) {
        LockSupportServiceImpl service = engine.getService(LockSupportService.SERVICE_NAME);
        return service.getLockStore(memory.getPartitionId(), namespace(memory.getName()));
    }

    private static ObjectNamespace namespace(String map) {
        return MapService.getObjectNamespace(map);
    }

    /** Runs the operations that wait for the locks of these keys, after the one that this thread runs now. */
    public static void wake(NodeEngineImpl engine, String map, int partition, Collection<Data> keys) {
        OperationParkerImpl parker = (OperationParkerImpl) engine.getOperationParker();
        if (parker.getParkQueueCount() == 0) {
            return;
        }
        List<Data> released = List.copyOf(keys);
        engine.getOperationService().execute(new PartitionSpecificRunnable() {
            @Override
            public int getPartitionId() {
                return partition;
            }

            @Override
            public void run() {
                released.forEach(key -> parker.unpark(new Released(new LockWaitNotifyKey(namespace(map), key))));
            }
        });
    }

    private record Released(WaitNotifyKey key) implements Notifier {
        @Override
        public boolean shouldNotify() {
            return true;
        }

        @Override
        public WaitNotifyKey getNotifiedKey() {
            return key;
        }
    }
}
