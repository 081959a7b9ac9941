package kvwal.clients.deadlines;

import com.hazelcast.query.QueryException;
import java.util.function.Supplier;

/** Deadline of one predicate: its long evaluations may take half of ten seconds. Thread-safe. */
final class QueryDeadline {
    private static final long WINDOW_NANOS = 10_000_000_000L;
    private static final long MOST_NANOS = WINDOW_NANOS / 2;
    /** As a sentence says it. */
    static final String MOST = MOST_NANOS / 1_000_000_000L + " s";

    private long begun = System.nanoTime();
    private long spent;

    /** A long evaluation took so long. `QueryException` with this sentence when the deadline has passed. */
    synchronized void spend(long nanos, Supplier<String> sentence) {
        long now = System.nanoTime();
        if (now - begun > WINDOW_NANOS) {
            begun = now;
            spent = 0;
        }
        spent += nanos;
        if (spent > MOST_NANOS) {
            throw new QueryException(sentence.get());
        }
    }
}
