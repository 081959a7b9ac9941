package kvwal.transactions;

import com.hazelcast.cluster.Member;
import com.hazelcast.config.Config;
import com.hazelcast.config.MapConfig;
import com.hazelcast.config.MapStoreConfig;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.IMap;
import com.hazelcast.spi.exception.RetryableException;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;
import kvwal.node.HazelcastInternals;
import kvwal.node.LoggedMaps;
import kvwal.node.NotWritten;
import kvwal.node.ReadyGate;
import kvwal.node.TaskIds;
import kvwal.transactions.steps.ApplyChanges;
import kvwal.transactions.steps.IntentKey;
import kvwal.transactions.steps.OwnerSteps;

/**
 * Transactions: changes of several keys as one. The keys are locked where they are, then the changes are logged as one intent,
 * then each is made, which ends its lock, then the intent is deleted.
 *
 * A member that is killed in between leaves its intent in the memory of other members and in a log, and the locks of the changes
 * that were not made with their keys. A member that finds an intent whose expander is gone makes these. Meanwhile nobody else has
 * changed the keys, so no change is made over a later one, and of two transactions one comes before the other on every key.
 */
public final class Transactions {
    private static final String SERVICE = "kvwal.intents";
    private static final int AT_ONCE = 64;
    private static final Pattern ID = Pattern.compile("[0-9a-f]{32}");

    /**
     * Answer of a transaction: applied; a guard has another value; others have locked a key; the keys could not be locked in
     * time. After all but the first nothing was written.
     */
    enum Outcome { DONE, REFUSED, BUSY, LATE }

    /** Answer of a transaction. `timestamp` is as `make` returns it. */
    record Answer(Outcome outcome, long timestamp) {
        private static Answer of(Outcome outcome) {
            return new Answer(outcome, 0);
        }
    }

    private final ReadyGate gate;
    private volatile boolean hasIntents;
    /** Keys of intents that this member could not finish, or whose logging may have failed. */
    private final Set<String> left = ConcurrentHashMap.newKeySet();
    /** Keys of the intents of transactions that this member expands. */
    private final Set<String> running = ConcurrentHashMap.newKeySet();
    private final AtomicLong runs = new AtomicLong();

    private Transactions(ReadyGate gate) {
        this.gate = gate;
    }

    /** Enables transactions of clients on the member with this configuration; `store` is the map store of a map with a log. */
    public static void configure(Config config, MapStoreConfig store, ReadyGate gate) {
        config.getUserContext().put(SERVICE, new Transactions(gate));
        config.getExecutorConfig(TaskIds.TRANSACTIONS).setPoolSize(AT_ONCE);
        config.getExecutorConfig(TaskIds.BETWEEN_MEMBERS).setPoolSize(4);
        String majority = config.getMapConfig("default").getSplitBrainProtectionName();
        config.addMapConfig(new MapConfig(IntentKey.MAP).setMapStoreConfig(store).setSplitBrainProtectionName(majority));
    }

    static Transactions of(HazelcastInstance instance) {
        return (Transactions) instance.getUserContext().get(SERVICE);
    }

    /** Whether this member serves clients. */
    boolean isServing() {
        return gate.isOpen();
    }

    /** From now on this member may own intents. */
    void expectIntents() {
        hasIntents = true;
    }

    /** Whether this member may own intents: else it need not look for any. */
    boolean hasIntents() {
        return hasIntents;
    }

    /** Intents that this member is to finish whether their expander lives or not. */
    Set<String> left() {
        return left;
    }

    /** Whether this member expands the transaction. */
    boolean isRunning(String intent) {
        return running.contains(intent);
    }

    /**
     * Makes all changes or none; returns when each is in a log and in memory. It has locked all keys before `until`, a time of
     * System.nanoTime, or has written nothing. A client that does not send it `again` hears an error in place of BUSY and LATE.
     */
    Answer run(HazelcastInstance instance, String id, String map, Changes changes, long until, boolean again) {
        checkNames(id, map);
        checkServing();
        Answer answer;
        do {
            answer = run(instance, map, changes, null, until);
        } while (!again && answer.outcome == Outcome.BUSY);
        if (!again && answer.outcome == Outcome.LATE) {
            throw new NotWritten("Overloaded: other transactions, or clients' locks, held the same keys of " + map
                + " for too long; nothing was written. Let fewer writers change one key.");
        }
        return answer;
    }

    /** As `run`, if each guard has the value that `conditions` say. */
    Answer runIf(HazelcastInstance instance, String id, String map, Changes changes, byte[] conditions, long until) {
        checkNames(id, map);
        checkServing();
        if (!LoggedMaps.has(map)) {
            throw new NotWritten("ConfigError: a map without a log has no conditional transactions; nothing was written.");
        }
        Guards guards = new Guards(instance, map, conditions);
        return BeforeLog.run(instance, guards::hold) ? run(instance, map, changes.ordered(guards.keys()), guards, until)
            : Answer.of(Outcome.REFUSED);
    }

    private Answer run(HazelcastInstance instance, String map, Changes changes, Guards guards, long until) {
        if (isOver(until)) {
            return Answer.of(Outcome.LATE);
        }
        Set<Data> keys = new HashSet<>(changes.keys());
        int last = 0;
        if (guards != null) {
            keys.addAll(guards.keys());
            last = Math.min(changes.count(guards.keys()), IntentKey.MOST_GUARDS);
        }
        UUID expander = instance.getCluster().getLocalMember().getUuid();
        String intent = IntentKey.of(IntentKey.number(runs.incrementAndGet(), last), expander, map);
        running.add(intent);
        KeyLocks locks = new KeyLocks(HazelcastInternals.engine(instance), intent, keys);
        Set<Data> locked = keys;
        try {
            long[] timestamps = BeforeLog.run(instance, locks::take);
            if (timestamps == null) {
                locked = Set.of();
                return Answer.of(Outcome.BUSY);
            }
            if (isOver(until)) { // the client may have gone on before a key was locked
                return Answer.of(Outcome.LATE);
            }
            if (guards != null && !BeforeLog.run(instance, guards::hold)) {
                return Answer.of(Outcome.REFUSED);
            }
            long timestamp = commit(instance, intent, changes, timestamps);
            locked.removeAll(changes.keys());
            return new Answer(Outcome.DONE, timestamp);
        } finally {
            running.remove(intent);
            if (!left.contains(intent)) {
                locks.release(locked);
            }
        }
    }

    private static boolean isOver(long until) {
        return System.nanoTime() - until >= 0;
    }

    /** Logs the changes of locked keys, and makes them; returns what `make` returns. */
    private long commit(HazelcastInstance instance, String intent, Changes changes, long[] timestamps) {
        boolean isLogged = LoggedMaps.has(IntentKey.map(intent));
        if (isLogged) {
            log(instance, intent, changes.stamped(HazelcastInternals.engine(instance), timestamps));
        }
        long timestamp;
        try {
            timestamp = make(instance, intent, changes);
        } catch (RuntimeException error) {
            if (!isLogged) {
                throw unknown("a map without a log may have a part of the transaction (" + error + "), and nobody finishes it.");
            }
            left.add(intent);
            throw unknown("the transaction is logged, but not all of it is in memory (" + error + "). The members finish it when"
                + " they can.");
        }
        if (isLogged) {
            intents(instance).deleteAsync(intent).exceptionally(error -> left.add(intent));
        }
        return timestamp;
    }

    private void log(HazelcastInstance instance, String intent, byte[] changes) {
        try {
            intents(instance).set(intent, changes);
        } catch (RuntimeException error) {
            if (error instanceof NotWritten refusal && !refusal.isUnknown()) {
                throw error;
            }
            left.add(intent); // it may be logged
            // Hazelcast would run the task again after a retryable error, while the first one is finished.
            throw error instanceof RetryableException
                ? unknown("the transaction was not logged in time (" + error + ").") : error;
        }
    }

    private static NotWritten unknown(String what) {
        return new NotWritten(NotWritten.UNKNOWN + " " + what + " Look whether it is there before you write it again.");
    }

    /**
     * Makes the changes of an intent that were not made. Those of guards come last: a client that reads a guard's new value reads
     * all else that came with it. Returns the greatest timestamp of the changes in the logs; 0 if one of them is not known, or
     * nothing had to be logged.
     */
    static long make(HazelcastInstance instance, String intent, Changes changes) {
        long latest = 0;
        boolean isKnown = true;
        for (Map<Data, ApplyChanges.Change> part : changes.parts(IntentKey.guards(intent))) {
            if (!part.isEmpty()) {
                long[] answers = OwnerSteps.run(HazelcastInternals.engine(instance), new ApplyChanges(intent, part));
                for (int i = 1; i < answers.length; i += 2) {
                    isKnown &= answers[i] != ApplyChanges.UNKNOWN;
                    latest = Math.max(latest, answers[i]);
                }
            }
        }
        return isKnown ? latest : 0;
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

    /** The members of the cluster, as they stand in the keys of intents. */
    static Set<String> living(HazelcastInstance instance) {
        Set<String> living = new TreeSet<>();
        for (Member member : instance.getCluster().getMembers()) {
            living.add(member.getUuid().toString());
        }
        return living;
    }

    static boolean isMember(HazelcastInstance instance, String member) {
        return living(instance).contains(member);
    }

    static String own(HazelcastInstance instance) {
        return instance.getCluster().getLocalMember().getUuid().toString();
    }

    static IMap<String, byte[]> intents(HazelcastInstance instance) {
        return instance.getMap(IntentKey.MAP);
    }
}
