package kvwal.log;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What one step of an operation has for the log, on a partition's thread, which must not stand still until it is written. All of it
 * goes to the log at the end of the step, and the operation goes on when all of it is answered.
 */
public final class PendingAppend {
    private static final ThreadLocal<PendingAppend> HERE = new ThreadLocal<>();

    private final Map<BatchQueues.BatchQueue, List<BatchQueues.PendingEntry>> held = new LinkedHashMap<>();
    private final List<Runnable> refusals = new ArrayList<>();
    private final AtomicInteger left = new AtomicInteger();
    private BatchQueues mailboxes;
    private Runnable next;

    /** Run a step: what it has for the log is returned, null if that is nothing. */
    public static PendingAppend during(Runnable step) {
        PendingAppend outer = HERE.get(); // a step may begin another operation, on the same thread
        PendingAppend waiting = new PendingAppend();
        HERE.set(waiting);
        try {
            step.run();
        } finally {
            HERE.set(outer);
        }
        return waiting.held.isEmpty() ? null : waiting;
    }

    /** Run something else on this thread: whatever it has for the log it waits for itself. */
    public static void outside(Runnable work) {
        PendingAppend outer = HERE.get();
        HERE.set(null);
        try {
            work.run();
        } finally {
            HERE.set(outer);
        }
    }

    /** The one of the step that this thread is running; null where a thread has to wait by itself. */
    static PendingAppend here() {
        return HERE.get();
    }

    /** To be sent at the end of the step; each of the letters tells `answered`. */
    void hold(BatchQueues through, BatchQueues.BatchQueue box, List<BatchQueues.PendingEntry> letters) {
        if (letters.isEmpty()) {
            return; // `clear` where there is nothing
        }
        mailboxes = through;
        held.computeIfAbsent(box, found -> new ArrayList<>()).addAll(letters);
        left.addAndGet(letters.size());
    }

    /** The step failed: nothing of it is sent. */
    void drop() {
        held.clear();
        left.set(0);
        refusals.forEach(Runnable::run);
    }

    /** A letter is answered: it is in the log, or refused. */
    void answered() {
        if (left.decrementAndGet() == 0) {
            next.run();
        }
    }

    /** If one of the letters is refused, this is to be done. */
    void onRefusal(Runnable action) {
        refusals.add(action);
    }

    /** Send all that is held. When all of it is answered, `action` runs on the thread that brings the last answer. */
    public void then(Runnable action) {
        next = action;
        held.forEach(mailboxes::putAll);
    }

    /** Throws NotWritten with the log's own words if something is not in it. */
    public void check() {
        try {
            held.values().forEach(BatchQueues::check);
        } catch (RuntimeException error) {
            refusals.forEach(Runnable::run);
            throw error;
        }
    }
}
