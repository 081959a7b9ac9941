package kvwal.transactions;

import com.hazelcast.config.Config;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.serialization.Data;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;

/**
 * Record of the changes of intents that this member has seen applied, as owner of a key or as its backup. Thread-safe.
 *
 * A change counts as applied only if it cannot be lost with one member. An owner says so when its backups have the change. A
 * backup says so when every member is gone that would own the key before it: until then one of these knows better.
 */
public final class AppliedChanges {
    private static final String SERVICE = "kvwal.applied";
    /** Answer of `begin`. */
    enum Outcome { BEGUN, DONE, TAKEN_OVER }

    /** A new expander is asked to retry so often, four times a second. */
    private static final int PATIENCE = 40;

    private static final class Marks {
        String expander;
        boolean takenOver;
        int asked;
        final BitSet done = new BitSet();
        /** Changes that are being logged or applied, by key. */
        final Map<Data, Integer> underWay = new HashMap<>();
        /** Changes that are in this owner's memory: done when its backups have them, or another member owns the key. */
        final Map<Integer, CompletableFuture<Void>> settled = new HashMap<>();
        /** Changes that this member has as a backup: the members that were to own the key before it, the owner among them. */
        final Map<Integer, Set<UUID>> ahead = new HashMap<>();

        Marks(String expander) {
            this.expander = expander;
        }
    }

    private final Map<String, Marks> all = new ConcurrentHashMap<>();

    void configure(Config config) {
        config.getUserContext().put(SERVICE, this);
    }

    /** Hears of each map and key of which a log refused a change. */
    public BiConsumer<String, Data> refusals() {
        return this::refused;
    }

    static AppliedChanges of(HazelcastInstance instance) {
        return (AppliedChanges) instance.getUserContext().get(SERVICE);
    }

    /** A change is to be applied by `expander`: whether it may be, and whether it already is. */
    Outcome begin(String intent, String expander, int change, Data key) {
        Marks marks = all.computeIfAbsent(intent, found -> new Marks(expander));
        synchronized (marks) {
            if (!marks.expander.equals(expander)) {
                return Outcome.TAKEN_OVER;
            }
            if (marks.done.get(change)) {
                return Outcome.DONE;
            }
            marks.underWay.put(key, change);
            return Outcome.BEGUN;
        }
    }

    /** The log refused a change of this key. A change of an intent that was under way for it is over: a key has one at a time. */
    private void refused(String map, Data key) {
        all.forEach((intent, marks) -> {
            if (IntentKey.map(intent).equals(map)) {
                synchronized (marks) {
                    marks.underWay.remove(key);
                }
            }
        });
    }

    /** A change is in the memory of this owner. `settled` ends when the backups have it. */
    void done(String intent, String expander, int change, Data key, CompletableFuture<Void> settled) {
        Marks marks = all.computeIfAbsent(intent, found -> new Marks(expander));
        synchronized (marks) {
            marks.underWay.remove(key);
            marks.done.set(change);
            marks.ahead.remove(change);
            marks.settled.put(change, settled);
        }
    }

    /** A change is in the memory of this backup. `ahead`: the members that are to own its key before this one. */
    void copied(String intent, String expander, int change, Data key, Set<UUID> ahead) {
        Marks marks = all.computeIfAbsent(intent, found -> new Marks(expander));
        synchronized (marks) {
            marks.underWay.remove(key);
            marks.done.set(change);
            marks.ahead.put(change, ahead);
        }
    }

    /**
     * From now on only `expander` applies the intent. Returns the changes that are applied, null while that is open: one is under
     * way, or is not at its backups yet. A change that has been under way for long was lost, and no member would send it again.
     */
    byte[] takeOver(String intent, String expander, Set<UUID> living) {
        Marks marks = all.computeIfAbsent(intent, found -> new Marks(expander));
        synchronized (marks) {
            marks.takenOver |= !marks.expander.equals(expander);
            marks.expander = expander;
            boolean isUnderWay = !marks.underWay.isEmpty() && ++marks.asked <= PATIENCE;
            if (isUnderWay || !marks.settled.values().stream().allMatch(CompletableFuture::isDone)) {
                return null;
            }
            BitSet applied = (BitSet) marks.done.clone();
            marks.ahead.forEach((change, members) -> applied.set(change, Collections.disjoint(members, living)));
            return applied.toByteArray();
        }
    }

    /** The intent is finished. If it was taken over, its expander is kept: a late change of the first one has to be refused. */
    public void forget(String intent) {
        all.computeIfPresent(intent, (found, marks) -> {
            synchronized (marks) {
                marks.done.clear();
                marks.settled.clear();
                marks.ahead.clear();
                return marks.takenOver ? marks : null;
            }
        });
    }
}
