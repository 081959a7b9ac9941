package kvwal.transactions;

import com.hazelcast.cluster.Member;
import com.hazelcast.config.Config;
import com.hazelcast.config.MapConfig;
import com.hazelcast.config.MapStoreConfig;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.logging.ILogger;
import com.hazelcast.map.IMap;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import kvwal.codec.EntryCodec;
import kvwal.codec.ValueCodec;
import kvwal.failover.FailoverBatch;
import kvwal.log.LogStore;
import kvwal.member.TaskFactory;
import kvwal.node.NotWritten;
import kvwal.node.ReadyGate;

/**
 * Changes of several keys as one: they are logged as one intent first, then applied key by key, then the intent goes.
 *
 * Whoever is killed in between leaves an intent, in the memory of other members and in a log. A member that finds one whose
 * expander is gone finishes it: it asks all members which of the changes they saw applied, which at the same time tells them to
 * take no more of them from anybody else, and applies the rest. So none is applied twice, over what came after it.
 */
public final class Transactions {
    public static final String MAP = "__kvwal.intents";
    static final String KEY_CLASS = "intent:str";
    private static final String SERVICE = "kvwal.intents";
    /** Runs the transactions of clients, and has a thread for each that is under way. */
    public static final String TRANSACTIONS = "kvwal";
    public static final String BETWEEN_MEMBERS = "kvwal.members";
    private static final int AT_ONCE = 64;
    private static final int LOOK_MILLIS = 250;

    private final ReadyGate gate;
    private final AppliedChanges applied = new AppliedChanges();
    private final Map<Long, FailoverBatch> turns = new ConcurrentHashMap<>();
    /** Keys of intents that this member could not finish, or of which it does not know whether they are there. */
    private final Set<String> left = ConcurrentHashMap.newKeySet();

    private Transactions(ReadyGate gate) {
        this.gate = gate;
    }

    /** Give a member what it needs for transactions of clients; `store` is that of a durable map. */
    public static void configure(Config config, MapStoreConfig store, ReadyGate gate) {
        config.getUserContext().put(SERVICE, new Transactions(gate));
        config.getExecutorConfig(TRANSACTIONS).setPoolSize(AT_ONCE);
        config.getExecutorConfig(BETWEEN_MEMBERS).setPoolSize(4);
        config.getSerializationConfig().addDataSerializableFactory(TaskFactory.FACTORY, new TaskFactory());
        String majority = config.getMapConfig("default").getSplitBrainProtectionName();
        config.addMapConfig(new MapConfig(MAP).setMapStoreConfig(store).setSplitBrainProtectionName(majority));
    }

    public static Transactions of(HazelcastInstance instance) {
        return (Transactions) instance.getUserContext().get(SERVICE);
    }

    /** The key of an intent says what it is, who applies it, and of which map; the log has it so. */
    static String key(String id, String expander, String map) {
        return id + " " + expander + " " + map;
    }

    static String map(String key) {
        return key.split(" ", 3)[2];
    }

    private static String expander(String key) {
        return key.split(" ", 3)[1];
    }

    public ReadyGate gate() {
        return gate;
    }

    public AppliedChanges applied() {
        return applied;
    }

    /** What FailoverAppend is at, by number. */
    public Map<Long, FailoverBatch> turns() {
        return turns;
    }

    /** All changes (entries, as in a block of the log) or none: returns when each is in a log and in memory. */
    public void run(HazelcastInstance instance, String id, String map, byte[] changes) {
        if (!gate.isOpen() && gate.lost() == null) {
            throw new RetryableHazelcastException("Memory is still loading: this member does not serve.");
        }
        gate.check();
        String own = own(instance);
        String key = key(id, own, map);
        if (LogStore.has(map)) {
            log(instance, key, changes);
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

    private void log(HazelcastInstance instance, String key, byte[] changes) {
        try {
            intents(instance).set(key, changes);
        } catch (NotWritten error) {
            throw error;
        } catch (RuntimeException error) {
            left.add(key); // it may be there
            throw error;
        }
    }

    /** Apply what was not applied yet, and forget the intent. Returns whether it is finished: somebody else may have taken it over. */
    private boolean apply(HazelcastInstance instance, String key, String own, byte[] changes, BitSet done) {
        IMap<Object, Object> map = instance.getMap(map(key));
        List<CompletableFuture<Boolean>> answers = new ArrayList<>();
        EntryCodec.Reader reader = new EntryCodec.Reader(changes);
        for (int i = 0; i < reader.count(); i++) {
            EntryCodec.Entry entry = reader.next();
            if (!done.get(i)) {
                Data value = entry.deleted() ? null : ValueCodec.toData(entry.valueClass(), entry.value());
                Data changed = ValueCodec.toData(entry.keyClass(), entry.key());
                answers.add(map.submitToKey(changed, new TaskFactory.Apply(key, own, i, value, entry.expires())).toCompletableFuture());
            }
        }
        if (!all(answers)) {
            return false;
        }
        if (LogStore.has(map(key))) {
            intents(instance).delete(key);
        }
        left.remove(key);
        instance.getExecutorService(BETWEEN_MEMBERS).executeOnAllMembers(new TaskFactory.Forget(key));
        return true;
    }

    /** Waits for all of them, so that none is under way when this throws what one of them threw. */
    private static boolean all(List<CompletableFuture<Boolean>> answers) {
        boolean all = true;
        RuntimeException failure = null;
        for (CompletableFuture<Boolean> answer : answers) {
            try {
                all &= answer.join();
            } catch (CompletionException error) {
                failure = error.getCause() instanceof RuntimeException ? (RuntimeException) error.getCause() : error;
            }
        }
        if (failure != null) {
            throw failure;
        }
        return all;
    }

    /** From now on, and as long as the member lives, finish what members that went have left. */
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
                    for (String key : gate.isOpen() ? abandoned(instance) : Set.<String>of()) {
                        tryToFinish(instance, key, logger);
                    }
                } catch (HazelcastInstanceNotActiveException error) {
                    throw error;
                } catch (RuntimeException error) {
                    // As in a half that may not serve: others look after transactions, or this one does when it may again.
                    logger.fine("This member may not look for transactions that are left now; it looks again.", error);
                }
                Thread.sleep(LOOK_MILLIS);
            }
        } catch (InterruptedException | HazelcastInstanceNotActiveException error) {
            logger.fine("This member has left: others look after transactions.");
        }
    }

    private void tryToFinish(HazelcastInstance instance, String key, ILogger logger) throws InterruptedException {
        try {
            finish(instance, key);
        } catch (HazelcastInstanceNotActiveException error) {
            throw error;
        } catch (RuntimeException | ExecutionException error) {
            logger.warning("The transaction " + key + " cannot be finished now; it is tried again: " + error);
        }
    }

    /** Intents whose expander is no longer a member, as far as this one owns them, and those that it left itself. */
    private Set<String> abandoned(HazelcastInstance instance) {
        Set<String> living = new TreeSet<>();
        for (Member member : instance.getCluster().getMembers()) {
            living.add(member.getUuid().toString());
        }
        Set<String> found = new TreeSet<>(left);
        for (String key : intents(instance).localKeySet()) {
            if (!living.contains(expander(key))) {
                found.add(key);
            }
        }
        return found;
    }

    private void finish(HazelcastInstance instance, String key) throws ExecutionException, InterruptedException {
        String own = own(instance);
        BitSet done = new BitSet();
        for (Future<byte[]> told : instance.getExecutorService(BETWEEN_MEMBERS).submitToAllMembers(new TaskFactory.TakeOver(key, own)).values()) {
            byte[] found = told.get();
            if (found == null) {
                return;
            }
            done.or(BitSet.valueOf(found));
        }
        byte[] changes = intents(instance).get(key);
        if (changes == null) {
            left.remove(key); // it was never there, or somebody else finished it
        } else {
            apply(instance, key, own, changes, done);
        }
    }

    private static String own(HazelcastInstance instance) {
        return instance.getCluster().getLocalMember().getUuid().toString();
    }

    private static IMap<String, byte[]> intents(HazelcastInstance instance) {
        return instance.getMap(MAP);
    }
}
