package kvwal.transactions;

import com.hazelcast.cluster.Member;
import com.hazelcast.config.Config;
import com.hazelcast.config.MapConfig;
import com.hazelcast.config.MapStoreConfig;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.partition.IPartitionService;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.IMap;
import com.hazelcast.spi.exception.RetryableException;
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
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import java.util.regex.Pattern;
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
    private static final Pattern ID = Pattern.compile("[0-9a-f]{32}");
    /** A block without entries: the intent of a transaction whose conditions are still being looked at. */
    static final byte[] UNDECIDED = {(byte) 0x90};

    /** Answer of a conditional transaction: applied; a guard has another value; another transaction has locked a guard. */
    enum Outcome { DONE, REFUSED, BUSY }

    private final ReadyGate gate;
    private final AtomicBoolean watches = new AtomicBoolean();
    /** Keys of intents that this member could not finish, whose logging may have failed, or whose locks were met. */
    private final Set<String> left = ConcurrentHashMap.newKeySet();

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
        config.addMapConfig(new MapConfig(Guards.MAP).setSplitBrainProtectionName(majority));
    }

    static Transactions of(HazelcastInstance instance) {
        return (Transactions) instance.getUserContext().get(SERVICE);
    }

    /** Whether this member serves clients. */
    boolean isServing() {
        return gate.isOpen();
    }

    /** Whether the caller is the first to ask, and begins to watch for intents. */
    boolean beginWatch() {
        return !watches.getAndSet(true);
    }

    /** Intents that this member is to finish whether their expander lives or not. */
    Set<String> left() {
        return left;
    }

    /** Applies all changes (entries, as in a block of the log) or none; returns when each is in a log and in memory. */
    public void run(HazelcastInstance instance, String id, String map, byte[] changes) {
        checkNames(id, map);
        checkServing();
        String own = own(instance);
        String key = IntentKey.of(id, own, map);
        if (LoggedMaps.has(map)) {
            log(instance, key, EntryCodec.withTimestamps(changes, timestamps(instance, map, changes)));
        }
        applyLogged(instance, key, own, changes, Set.of());
    }

    /**
     * As `run`, if each guard has the value that `conditions` say, and no other conditional transaction is between this look at
     * the guards and the last change.
     *
     * The intent is logged empty, then the guards are locked and compared, then the intent gets its changes by compare-and-set:
     * this is the moment at which the transaction happens. A member that finishes an empty intent deletes it before it releases
     * the guards, so an expander that stood still comes too late.
     */
    Outcome runIf(HazelcastInstance instance, String id, String map, byte[] changes, byte[] conditions) {
        checkNames(id, map);
        checkServing();
        if (!LoggedMaps.has(map)) {
            throw new NotWritten("ConfigError: a map without a log has no conditional transactions; nothing was written.");
        }
        Guards guards = new Guards(instance, map, conditions);
        if (!guards.await()) {
            Set<String> living = living(instance);
            guards.intents().filter(intent -> !living.contains(IntentKey.expander(intent))).forEach(left::add);
            return Outcome.BUSY;
        }
        if (!guards.hold()) {
            return Outcome.REFUSED;
        }
        String own = own(instance);
        String key = IntentKey.of(id, own, map);
        log(instance, key, UNDECIDED);
        try {
            boolean locked = guards.lock(key);
            if (!locked || !guards.hold()) {
                intents(instance).delete(key);
                guards.release(key);
                return locked ? Outcome.REFUSED : Outcome.BUSY;
            }
            byte[] stamped = EntryCodec.withTimestamps(changes, timestamps(instance, map, changes));
            if (!intents(instance).replace(key, UNDECIDED, stamped)) {
                throw new NotWritten("CommitUnknown: another member has taken the transaction over."
                    + " Look whether it is there before you write it again.");
            }
        } catch (RuntimeException | Error error) {
            left.add(key); // it may be logged, and the guards may be locked
            if (error instanceof RetryableException) { // Hazelcast would run this task again, under a key that is being finished
                throw new NotWritten("CommitUnknown: the transaction was not decided in time (" + error + ")."
                    + " Look whether it is there before you write it again.");
            }
            throw error;
        }
        applyLogged(instance, key, own, changes, guards.locks());
        try {
            guards.release(key);
        } catch (RuntimeException error) {
            left.add(key); // all is done but for the locks
        }
        return Outcome.DONE;
    }

    /** The id and the map come from a client, and are parts of the intent's key. */
    private static void checkNames(String id, String map) {
        if (id == null || !ID.matcher(id).matches() || map == null || LoggedMaps.isInternal(map)) {
            throw new NotWritten("ConfigError: no client may send a transaction with this id of this map (" + map
                + "); nothing was written. An id has 32 hexadecimal digits, and maps that begin with __ are the members' own.");
        }
    }

    private void checkServing() {
        if (!gate.isOpen() && gate.lost() == null) {
            throw new RetryableHazelcastException("Memory is still loading: this member does not serve.");
        }
        gate.check();
    }

    private void applyLogged(HazelcastInstance instance, String key, String own, byte[] changes, Set<String> guards) {
        String reason = "another member goes on with it";
        try {
            if (apply(instance, key, own, changes, new BitSet(), guards)) {
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
        } catch (RuntimeException error) {
            if (!(error instanceof NotWritten refusal) || refusal.isUnknown()) {
                left.add(key); // it may be logged
            }
            throw error;
        }
    }

    /**
     * Applies the remaining changes and deletes the intent. False if another member has taken the intent over. The changes of
     * guards come last: a client that reads a guard's new value reads all else that came with it.
     */
    boolean apply(HazelcastInstance instance, String key, String own, byte[] changes, BitSet done, Set<String> guards) {
        String name = IntentKey.map(key);
        if (!applyEach(instance, key, own, changes, done, entry -> !guards.contains(Guards.lockOf(entry, name)))
            || !guards.isEmpty()
            && !applyEach(instance, key, own, changes, done, entry -> guards.contains(Guards.lockOf(entry, name)))) {
            return false;
        }
        if (LoggedMaps.has(name)) {
            intents(instance).delete(key);
        }
        left.remove(key);
        instance.getExecutorService(TaskIds.BETWEEN_MEMBERS).executeOnAllMembers(new ForgetIntent(key));
        return true;
    }

    private static boolean applyEach(HazelcastInstance instance, String key, String own, byte[] changes, BitSet done,
                                     Predicate<EntryCodec.Entry> chosen) {
        IMap<Object, Object> map = instance.getMap(IntentKey.map(key));
        List<CompletableFuture<Boolean>> answers = new ArrayList<>();
        EntryCodec.Reader reader = new EntryCodec.Reader(changes);
        for (int i = 0; i < reader.count(); i++) {
            EntryCodec.Entry entry = reader.next();
            if (!done.get(i) && chosen.test(entry)) {
                Data value = entry.deleted() ? null : ValueCodec.toData(entry.valueClass(), entry.value());
                Data changed = ValueCodec.toData(entry.keyClass(), entry.key());
                answers.add(map.submitToKey(changed, new ApplyChange(key, own, i, value, entry.expires())).toCompletableFuture());
            }
        }
        return !all(answers).contains(false);
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

    /** The members of the cluster, as they stand in the keys of intents. */
    static Set<String> living(HazelcastInstance instance) {
        Set<String> living = new TreeSet<>();
        for (Member member : instance.getCluster().getMembers()) {
            living.add(member.getUuid().toString());
        }
        return living;
    }

    static String own(HazelcastInstance instance) {
        return instance.getCluster().getLocalMember().getUuid().toString();
    }

    static IMap<String, byte[]> intents(HazelcastInstance instance) {
        return instance.getMap(IntentKey.MAP);
    }
}
