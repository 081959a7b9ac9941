package kvwal.node;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What one step of an operation has handed to the log, on a partition's thread, which must not stand still until it is written: the
 * operation goes on when all of it is answered.
 */
public final class Waiting {
    private static final ThreadLocal<Waiting> HERE = new ThreadLocal<>();

    private final List<Mailboxes.Letter> letters = new ArrayList<>();
    private final List<Runnable> refusals = new ArrayList<>();
    /** One more than the letters that are not answered: whoever handed them over has not let go yet. */
    private final AtomicInteger left = new AtomicInteger(1);
    private Runnable next;

    /** Run a step: what it hands over is returned, null if that is nothing. */
    public static Waiting during(Runnable step) {
        Waiting waiting = new Waiting();
        HERE.set(waiting);
        try {
            step.run();
        } finally {
            HERE.remove();
        }
        return waiting.letters.isEmpty() ? null : waiting;
    }

    /** The one of the step that this thread is running; null where a thread has to wait by itself. */
    static Waiting here() {
        return HERE.get();
    }

    /** What a letter tells when it is answered. */
    void answered() {
        if (left.decrementAndGet() == 0) {
            next.run();
        }
    }

    /** Before these letters are on their way. */
    void expect(List<Mailboxes.Letter> more) {
        letters.addAll(more);
        left.addAndGet(more.size());
    }

    /** If one of the letters is refused, this is to be done. */
    void onRefusal(Runnable action) {
        refusals.add(action);
    }

    /** Run `action` when all are answered: here and now if they are, else on the thread that brings the last answer. */
    public void then(Runnable action) {
        next = action;
        answered();
    }

    /** Throws NotWritten with the log's own words if something is not in it. */
    public void check() {
        try {
            Mailboxes.check(letters);
        } catch (RuntimeException error) {
            refusals.forEach(Runnable::run);
            throw error;
        }
    }
}
