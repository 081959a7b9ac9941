package kvwal.transactions;

import com.hazelcast.internal.serialization.Data;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Which changes of which intents this member has seen applied, as owner of a key or as its backup. Any thread may ask. */
public final class AppliedChanges {
    /** What `begin` answers. */
    public enum Outcome { BEGUN, DONE, TAKEN_OVER }

    /** So often somebody is told to ask again, four times a second. */
    private static final int PATIENCE = 40;

    private static final class Marks {
        String expander;
        boolean takenOver;
        int asked;
        final BitSet done = new BitSet();
        /** Changes on their way to the log and to memory, by the key that they change. */
        final Map<Data, Integer> underWay = new HashMap<>();

        Marks(String expander) {
            this.expander = expander;
        }
    }

    private final Map<String, Marks> all = new ConcurrentHashMap<>();

    /** A change is to be applied by `expander`: whether it may, and has to. */
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

    /** A change of this key is not in the log. If it was one of an intent, that was it: a key has one at a time. */
    public void refused(String map, Data key) {
        all.forEach((intent, marks) -> {
            if (Transactions.map(intent).equals(map)) {
                synchronized (marks) {
                    marks.underWay.remove(key);
                }
            }
        });
    }

    /** A change is in memory, and will be in that of the backups before anybody hears of it. */
    public void done(String intent, String expander, int change, Data key) {
        Marks marks = all.computeIfAbsent(intent, found -> new Marks(expander));
        synchronized (marks) {
            marks.underWay.remove(key);
            marks.done.set(change);
        }
    }

    /**
     * From now on `expander` applies it, and nobody else: which changes are applied, or null while one is on its way. What has
     * been on its way for long came to nothing, and had nobody who would send it again.
     */
    public byte[] takeOver(String intent, String expander) {
        Marks marks = all.computeIfAbsent(intent, found -> new Marks(expander));
        synchronized (marks) {
            marks.takenOver |= !marks.expander.equals(expander);
            marks.expander = expander;
            return marks.underWay.isEmpty() || ++marks.asked > PATIENCE ? marks.done.toByteArray() : null;
        }
    }

    /** It is finished. Of one that was taken over stays by whom: what its first expander sent may still come. */
    public void forget(String intent) {
        all.computeIfPresent(intent, (found, marks) -> {
            synchronized (marks) {
                marks.done.clear();
                return marks.takenOver ? marks : null;
            }
        });
    }
}
