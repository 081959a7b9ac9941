package kvwal.log;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;

/**
 * Entries that one step of an operation appends to the log. A partition's thread must not block until they are written: it hands
 * all of them over at the end of the step, and the operation goes on when the log has answered all.
 */
public final class PendingAppend {
    private static final ThreadLocal<PendingAppend> CURRENT = new ThreadLocal<>();

    private final Map<BatchQueue, List<PendingEntry>> held = new LinkedHashMap<>();
    private final List<Runnable> refusals = new ArrayList<>();
    private final AtomicInteger unanswered = new AtomicInteger();
    private BiConsumer<BatchQueue, List<PendingEntry>> send;
    private Runnable next;

    /** Runs a step; the entries that it appends, null if there are none. */
    public static PendingAppend during(Runnable step) {
        PendingAppend outer = CURRENT.get(); // a step may begin another operation, on the same thread
        PendingAppend append = new PendingAppend();
        CURRENT.set(append);
        try {
            step.run();
        } finally {
            CURRENT.set(outer);
        }
        return append.held.isEmpty() ? null : append;
    }

    /** Runs other work on this thread: it waits for its own entries. */
    public static void outside(Runnable work) {
        PendingAppend outer = CURRENT.get();
        CURRENT.set(null);
        try {
            work.run();
        } finally {
            CURRENT.set(outer);
        }
    }

    /** The append of the step that this thread runs; null where a thread has to wait for its entries itself. */
    static PendingAppend current() {
        return CURRENT.get();
    }

    /** Keeps entries of one queue, for `sender` at the end of the step. Each of them calls `answered`. */
    void hold(BiConsumer<BatchQueue, List<PendingEntry>> sender, BatchQueue queue, List<PendingEntry> entries) {
        if (entries.isEmpty()) {
            return; // `clear` of an empty map
        }
        send = sender;
        held.computeIfAbsent(queue, found -> new ArrayList<>()).addAll(entries);
        unanswered.addAndGet(entries.size());
    }

    /** The step failed: none of its entries is sent. */
    void drop() {
        held.clear();
        unanswered.set(0);
        giveUp();
    }

    /** The log has answered one entry. */
    void answered() {
        if (unanswered.decrementAndGet() == 0) {
            next.run();
        }
    }

    /** Runs `action` if the log refuses one of the entries, or the operation ends before memory has them. */
    void onRefusal(Runnable action) {
        refusals.add(action);
    }

    /** Sends all entries. `action` runs when all are answered, on the thread that brings the last answer. */
    public void then(Runnable action) {
        next = action;
        held.forEach(send);
    }

    /** Whether the log may have one of the entries. All have to be answered. */
    public boolean mayBeLogged() {
        return held.values().stream().anyMatch(PendingEntry::mayBeLogged);
    }

    /** The timestamp of the last transaction that has one of the entries. All have to be in the log. */
    public long timestamp() {
        return held.values().stream().flatMap(List::stream).mapToLong(PendingEntry::timestamp).max().orElse(0);
    }

    /** Throws NotWritten with the log's own message if an entry is not in the log. Others may be. */
    public void check() {
        try {
            held.values().forEach(PendingEntry::check);
        } catch (RuntimeException error) {
            giveUp();
            throw error;
        }
    }

    /** The operation ends before memory has what was sent. */
    public void giveUp() {
        refusals.forEach(Runnable::run);
        refusals.clear();
    }
}
