package kvwal.transactions;

import com.hazelcast.cluster.Member;
import com.hazelcast.config.Config;
import com.hazelcast.config.MapConfig;
import com.hazelcast.config.MapStoreConfig;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.core.IExecutorService;
import com.hazelcast.internal.partition.IPartitionService;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.logging.ILogger;
import com.hazelcast.map.IMap;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import kvwal.codec.EntryCodec;
import kvwal.codec.ValueCodec;
import kvwal.node.HazelcastInternals;
import kvwal.node.LoggedMaps;
import kvwal.node.NotWritten;
import kvwal.node.ReadyGate;
import kvwal.node.TaskIds;

/**
 * Transactions: changes of several keys as one. They are logged as one intent, then applied key by key, then the intent is
 * deleted.
 *
 * A member that is killed in between leaves its intent in the memory of other members and in a log. A member that finds an intent
 * whose expander is gone finishes it: it asks all members which of the changes they saw applied, which also makes them refuse the
 * changes from any other member, and applies the rest. So no change is applied twice, over a later one.
 */
public final class Transactions {
    private static final String SERVICE = "kvwal.intents";
    private static final int AT_ONCE = 64;
    private static final int LOOK_MILLIS = 250;
    private static final long WARNING_NANOS = TimeUnit.MINUTES.toNanos(1);

    private final ReadyGate gate;
    /** Keys of intents that this member could not finish, or whose logging may have failed. */
    private final Set<String> left = ConcurrentHashMap.newKeySet();
    /** When the thread that looks last warned of an intent that it could not finish, in nanoseconds. Only that thread uses it. */
    private final Map<String, Long> warned = new HashMap<>();

    private Transactions(ReadyGate gate) {
        this.gate = gate;
    }

    /** Enables transactions of clients on the member with this configuration; `store` is the map store of a map with a log. */
    public static void configure(Config config, MapStoreConfig store, ReadyGate gate, AppliedChanges applied) {
        config.getUserContext().put(SERVICE, new Transactions(gate));
        applied.configure(config);
        config.getExecutorConfig(TaskIds.TRANSACTIONS).setPoolSize(AT_ONCE);
        config.getExecutorConfig(TaskIds.BETWEEN_MEMBERS).setPoolSize(4);
        String majority = config.getMapConfig("default").getSplitBrainProtectionName();
        config.addMapConfig(new MapConfig(IntentKey.MAP).setMapStoreConfig(store).setSplitBrainProtectionName(majority));
    }

    static Transactions of(HazelcastInstance instance) {
        return (Transactions) instance.getUserContext().get(SERVICE);
    }

    /** Applies all changes (entries, as in a block of the log) or none; returns when each is in a log and in memory. */
    public void run(HazelcastInstance instance, String id, String map, byte[] changes) {
        if (!gate.isOpen() && gate.lost() == null) {
            throw new RetryableHazelcastException("Memory is still loading: this member does not serve.");
        }
        gate.check();
        String own = own(instance);
        String key = IntentKey.of(id, own, map);
        if (LoggedMaps.has(map)) {
            log(instance, key, EntryCodec.withTimestamps(changes, timestamps(instance, map, changes)));
        }
        String reason = "another member goes on with it";
        try {
            if (apply(instance, key, own, changes, new BitSet())) {
                return;
            }
        } catch (RuntimeException error) {
            left.add(key);
            reason = error.toString();
        }
        throw new NotWritten("CommitUnknown: the transaction is logged, but not all of it is in memory (" + reason + ")."
            + " The members finish it when they can. Look whether it is there before you write it again.");
    }

    /**
     * For each change, a timestamp that no acknowledged change of its key is above, and every change after the intent is. If
     * memory is filled from logs before the intent is finished, this tells which changes of a key came before the intent. The
     * intent's own timestamp cannot: it is of another member's clock than the key's.
     */
    private static long[] timestamps(HazelcastInstance instance, String map, byte[] changes) {
        IMap<Object, Object> keys = instance.getMap(map);
        IPartitionService partitions = HazelcastInternals.node(instance).getPartitionService();
        Map<Integer, CompletableFuture<Long>> answers = new HashMap<>();
        EntryCodec.Reader reader = new EntryCodec.Reader(changes);
        int[] partitionOf = new int[reader.count()];
        for (int i = 0; i < partitionOf.length; i++) {
            EntryCodec.Entry entry = reader.next();
            Data key = ValueCodec.toData(entry.keyClass(), entry.key());
            int partition = partitionOf[i] = partitions.getPartitionId(key);
            answers.computeIfAbsent(partition,
                first -> keys.submitToKey(key, new ReadTimestamp(map, partition)).toCompletableFuture());
        }
        all(answers.values());
        return Arrays.stream(partitionOf).mapToLong(partition -> answers.get(partition).join()).toArray();
    }

    private void log(HazelcastInstance instance, String key, byte[] changes) {
        try {
            intents(instance).set(key, changes);
        } catch (NotWritten error) {
            throw error;
        } catch (RuntimeException error) {
            left.add(key); // it may be logged
            throw error;
        }
    }

    /** Applies the remaining changes and deletes the intent. False if another member has taken the intent over. */
    private boolean apply(HazelcastInstance instance, String key, String own, byte[] changes, BitSet done) {
        IMap<Object, Object> map = instance.getMap(IntentKey.map(key));
        List<CompletableFuture<Boolean>> answers = new ArrayList<>();
        EntryCodec.Reader reader = new EntryCodec.Reader(changes);
        for (int i = 0; i < reader.count(); i++) {
            EntryCodec.Entry entry = reader.next();
            if (!done.get(i)) {
                Data value = entry.deleted() ? null : ValueCodec.toData(entry.valueClass(), entry.value());
                Data changed = ValueCodec.toData(entry.keyClass(), entry.key());
                answers.add(map.submitToKey(changed, new ApplyChange(key, own, i, value, entry.expires())).toCompletableFuture());
            }
        }
        if (all(answers).contains(false)) {
            return false;
        }
        if (LoggedMaps.has(IntentKey.map(key))) {
            intents(instance).delete(key);
        }
        left.remove(key);
        instance.getExecutorService(TaskIds.BETWEEN_MEMBERS).executeOnAllMembers(new ForgetIntent(key));
        return true;
    }

    /** Waits for every answer, so that nothing is under way when this throws what one of them threw. */
    private static <T> List<T> all(Collection<CompletableFuture<T>> answers) {
        List<T> all = new ArrayList<>();
        RuntimeException failure = null;
        for (CompletableFuture<T> answer : answers) {
            try {
                all.add(answer.join());
            } catch (CompletionException error) {
                failure = error.getCause() instanceof RuntimeException ? (RuntimeException) error.getCause() : error;
            }
        }
        if (failure != null) {
            throw failure;
        }
        return all;
    }

    /** Finishes the intents of members that left, for as long as this member lives. */
    void watch(HazelcastInstance instance) {
        Thread thread = new Thread(() -> look(instance), "kvwal.intents");
        thread.setDaemon(true);
        thread.start();
    }

    private void look(HazelcastInstance instance) {
        ILogger logger = instance.getLoggingService().getLogger(Transactions.class);
        try {
            while (instance.getLifecycleService().isRunning()) {
                try {
                    if (gate.isOpen()) {
                        finishAll(instance, logger);
                    }
                } catch (HazelcastInstanceNotActiveException error) {
                    throw error;
                } catch (RuntimeException error) {
                    // This member may be in the smaller half: the others finish transactions, or this one does later.
                    logger.fine("This member may not look for transactions that are left now; it looks again.", error);
                }
                Thread.sleep(LOOK_MILLIS);
            }
        } catch (InterruptedException | HazelcastInstanceNotActiveException error) {
            logger.fine("This member has left: others look after transactions.");
        }
    }

    private void finishAll(HazelcastInstance instance, ILogger logger) throws InterruptedException {
        Set<String> found = abandoned(instance);
        warned.keySet().retainAll(found);
        for (String key : found) {
            tryToFinish(instance, key, logger);
        }
    }

    private void tryToFinish(HazelcastInstance instance, String key, ILogger logger) throws InterruptedException {
        try {
            finish(instance, key);
        } catch (HazelcastInstanceNotActiveException error) {
            throw error;
        } catch (RuntimeException | ExecutionException error) {
            // While a majority is missing each look fails: a line for each would fill the disk of the log.
            Long last = warned.get(key);
            if (last == null || System.nanoTime() - last >= WARNING_NANOS) {
                warned.put(key, System.nanoTime());
                logger.warning("The transaction " + key + " cannot be finished now. This member goes on trying, and says so"
                    + " again after a minute: " + error);
            }
        }
    }

    /** Intents that this member owns and whose expander is no longer a member, and those that it could not finish itself. */
    private Set<String> abandoned(HazelcastInstance instance) {
        Set<String> living = new TreeSet<>();
        for (Member member : instance.getCluster().getMembers()) {
            living.add(member.getUuid().toString());
        }
        Set<String> found = new TreeSet<>(left);
        for (String key : intents(instance).localKeySet()) {
            if (!living.contains(IntentKey.expander(key))) {
                found.add(key);
            }
        }
        return found;
    }

    private void finish(HazelcastInstance instance, String key) throws ExecutionException, InterruptedException {
        String own = own(instance);
        BitSet done = new BitSet();
        IExecutorService executor = instance.getExecutorService(TaskIds.BETWEEN_MEMBERS);
        for (Future<byte[]> answer : executor.submitToAllMembers(new TakeOverIntent(key, own)).values()) {
            byte[] found = answer.get();
            if (found == null) {
                return;
            }
            done.or(BitSet.valueOf(found));
        }
        byte[] changes = intents(instance).get(key);
        if (changes == null) {
            left.remove(key); // it was never logged, or another member finished it
        } else {
            apply(instance, key, own, changes, done);
        }
    }

    private static String own(HazelcastInstance instance) {
        return instance.getCluster().getLocalMember().getUuid().toString();
    }

    private static IMap<String, byte[]> intents(HazelcastInstance instance) {
        return instance.getMap(IntentKey.MAP);
    }
}
