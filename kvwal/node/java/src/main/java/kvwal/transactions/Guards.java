package kvwal.transactions;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.IMap;
import com.hazelcast.query.Predicates;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import kvwal.codec.EntryCodec;
import kvwal.codec.ValueCodec;
import kvwal.node.HazelcastInternals;

/**
 * Guards of a conditional transaction: the keys whose values it depends on. Each is locked from before the values are compared
 * until every change of the transaction is in memory, so of the transactions with a common guard each sees the one before it.
 *
 * A lock is an entry of a map in memory: its value is the key of the intent. So a lock does not end with the member that expands
 * the intent, but with the intent: the member that finishes the intent releases its locks.
 */
final class Guards {
    static final String MAP = "__kvwal.guards";
    private static final long PATIENCE_NANOS = TimeUnit.MILLISECONDS.toNanos(250);
    private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

    private final HazelcastInstance instance;
    private final String map;
    private final IMap<String, String> locks;
    /** Conditions by the key of their lock, in the order in which all transactions take locks. */
    private final TreeMap<String, EntryCodec.Entry> conditions = new TreeMap<>();

    /** `block` is a block of entries: each has the value that its key is to have. A delete stands for an absent key. */
    Guards(HazelcastInstance instance, String map, byte[] block) {
        this.instance = instance;
        this.map = map;
        locks = table(instance);
        EntryCodec.Reader reader = new EntryCodec.Reader(block);
        for (int i = 0; i < reader.count(); i++) {
            EntryCodec.Entry entry = reader.next();
            conditions.put(lockOf(entry, map), entry);
        }
    }

    /** The key of the lock of an entry's key. */
    static String lockOf(EntryCodec.Entry entry, String map) {
        return entry.keyClass() + " " + Base64.getEncoder().encodeToString(entry.key()) + " " + map;
    }

    /** The keys of the locks of these guards. */
    Set<String> locks() {
        return conditions.keySet();
    }

    /** The keys of the locks that an intent has now. */
    static Set<String> locks(HazelcastInstance instance, String intent) {
        return table(instance).keySet(Predicates.equal("this", intent));
    }

    /** Whether each guard has its value now. */
    boolean hold() {
        for (EntryCodec.Entry condition : conditions.values()) {
            Data key = ValueCodec.toData(condition.keyClass(), condition.key());
            ValueCodec.Encoded found = HazelcastInternals.held(instance, map, key);
            boolean equal = found == null || condition.deleted() ? found == null && condition.deleted()
                : ValueCodec.toData(condition.valueClass(), condition.value())
                    .equals(ValueCodec.toData(found.name(), found.array(), found.from(), found.length()));
            if (!equal) {
                return false;
            }
        }
        return true;
    }

    /** Waits a moment for other transactions; whether no guard is locked then. */
    boolean await() {
        long until = System.nanoTime() + PATIENCE_NANOS;
        while (conditions.keySet().stream().anyMatch(locks::containsKey)) {
            if (System.nanoTime() - until > 0) {
                return false;
            }
            LockSupport.parkNanos(PAUSE_NANOS);
        }
        return true;
    }

    /** Locks all guards for an intent. False if another has one of them: then none is locked. */
    boolean lock(String intent) {
        List<String> locked = new ArrayList<>();
        for (String key : conditions.keySet()) {
            if (locks.putIfAbsent(key, intent) != null) {
                release(instance, locked, intent);
                return false;
            }
            locked.add(key);
        }
        return true;
    }

    void release(String intent) {
        release(instance, conditions.keySet(), intent);
    }

    /** Releases all guards of an intent that is over, for its expander. */
    static void releaseAll(HazelcastInstance instance, String intent) {
        release(instance, locks(instance, intent), intent);
    }

    /** Keys of the intents that have locked these guards. */
    Stream<String> intents() {
        return conditions.keySet().stream().map(locks::get).filter(Objects::nonNull);
    }

    private static void release(HazelcastInstance instance, Collection<String> keys, String intent) {
        for (String key : keys) {
            table(instance).remove(key, intent);
        }
    }

    private static IMap<String, String> table(HazelcastInstance instance) {
        return instance.getMap(MAP);
    }
}
