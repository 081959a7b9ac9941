package kvwal.transactions;

import com.hazelcast.cluster.Member;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.locksupport.LockResource;
import com.hazelcast.internal.locksupport.LockStoreImpl;
import com.hazelcast.internal.locksupport.LockSupportService;
import com.hazelcast.internal.locksupport.LockSupportServiceImpl;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.spi.impl.NodeEngineImpl;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import kvwal.locks.TransactionLocks;
import kvwal.node.HazelcastInternals;
import kvwal.node.MemberQuery;
import kvwal.transactions.steps.IntentKey;
import kvwal.transactions.steps.PartitionSteps;
import kvwal.transactions.steps.UnlockKeys;

/**
 * Locks in this member's partitions that no transaction will release: its member went before it logged the intent, or could not
 * release them. A transaction with an intent is finished by IntentWatch. For one thread only.
 */
final class LeftLocks {
    private static final long OLD_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final HazelcastInstance instance;
    /**
     * The locks that the last look saw, and when a look saw each first, by System.nanoTime. The time in the lock itself is of the
     * clock of the member that owned the partition, which may be another one, and may step.
     */
    private Map<KeyLock, Long> seen = Map.of();

    /** The lock that one transaction has on one key. */
    private record KeyLock(String map, Data key, UUID expander, long number) { }

    LeftLocks(HazelcastInstance instance) {
        this.instance = instance;
    }

    /** Releases the locks of a transaction on these keys if they are left. */
    void release(String intent, List<Data> keys) throws ExecutionException, InterruptedException {
        if (isLeft(intent)) {
            PartitionSteps.here(HazelcastInternals.engine(instance), new UnlockKeys(intent, keys)).join();
        }
    }

    /** Looks at the locks. Those that looks have seen for some time, by the keys of their intents. */
    Map<String, List<Data>> old() {
        long now = System.nanoTime();
        Map<KeyLock, Long> found = new HashMap<>();
        look().forEach(lock -> found.put(lock, seen.getOrDefault(lock, now)));
        seen = found;
        Map<String, List<Data>> old = new HashMap<>();
        found.forEach((lock, since) -> {
            if (now - since >= OLD_NANOS) {
                String intent = IntentKey.of(lock.number, lock.expander, lock.map);
                old.computeIfAbsent(intent, first -> new ArrayList<>()).add(lock.key);
            }
        });
        return old;
    }

    /** The locks that transactions have in this member's partitions. */
    private List<KeyLock> look() {
        NodeEngineImpl engine = HazelcastInternals.engine(instance);
        LockSupportServiceImpl service = engine.getService(LockSupportService.SERVICE_NAME);
        List<KeyLock> found = new ArrayList<>();
        for (int partition = 0; partition < engine.getPartitionService().getPartitionCount(); partition++) {
            if (!engine.getPartitionService().getPartition(partition, false).isLocal()) {
                continue;
            }
            for (LockStoreImpl store : service.getLockContainer(partition).getLockStores()) {
                String map = store.getNamespace().getObjectName();
                store.getLocks().forEach(lock -> add(found, map, lock));
            }
        }
        return found;
    }

    /** Partition threads lock and release meanwhile: a lock that is released has no owner, and a lock may get another one. */
    private static void add(List<KeyLock> found, String map, LockResource lock) {
        UUID expander = lock.getOwner();
        long number = lock.getThreadId();
        if (expander != null && number < 0 && TransactionLocks.isOne(lock)) {
            found.add(new KeyLock(map, lock.getKey(), expander, number));
        }
    }

    private boolean isLeft(String intent) throws ExecutionException, InterruptedException {
        String expander = IntentKey.expander(intent);
        List<Member> asked = new ArrayList<>(instance.getCluster().getMembers());
        if (Transactions.isMember(instance, expander)) {
            asked.removeIf(member -> !member.getUuid().toString().equals(expander));
        }
        Collection<Boolean> answers = MemberQuery.ofAll(instance, asked, new IsExpanded(intent), true);
        return answers.size() == asked.size() && !answers.contains(true)
            && !Transactions.intents(instance).containsKey(intent);
    }
}
