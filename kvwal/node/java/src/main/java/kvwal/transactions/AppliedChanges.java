package kvwal.transactions;

import com.hazelcast.config.Config;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.serialization.Data;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;

/** Record of the changes of intents that this member has seen applied, as owner of a key or as its backup. Thread-safe. */
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
    public Outcome begin(String intent, String expander, int change, Data key) {
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

    /** A change is in memory, and will be in the memory of the backups before a client hears of it. */
    public void done(String intent, String expander, int change, Data key) {
        Marks marks = all.computeIfAbsent(intent, found -> new Marks(expander));
        synchronized (marks) {
            marks.underWay.remove(key);
            marks.done.set(change);
        }
    }

    /**
     * From now on only `expander` applies the intent. Returns the changes that are applied, null while one is under way. A change
     * that has been under way for long was lost, and no member would send it again.
     */
    public byte[] takeOver(String intent, String expander) {
        Marks marks = all.computeIfAbsent(intent, found -> new Marks(expander));
        synchronized (marks) {
            marks.takenOver |= !marks.expander.equals(expander);
            marks.expander = expander;
            return marks.underWay.isEmpty() || ++marks.asked > PATIENCE ? marks.done.toByteArray() : null;
        }
    }

    /** The intent is finished. If it was taken over, its expander is kept: a late change of the first one has to be refused. */
    public void forget(String intent) {
        all.computeIfPresent(intent, (found, marks) -> {
            synchronized (marks) {
                marks.done.clear();
                return marks.takenOver ? marks : null;
            }
        });
    }
}
