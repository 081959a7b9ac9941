package kvwal.log;

import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import kvwal.node.NotWritten;

/** One entry on its way to the log, and the callback that hears when the log has answered. */
public final class PendingEntry {
    /** Most bytes of an entry, and of a batch: TRANSACTION_BYTES of kvwal/config.py, which one block of the log holds. */
    static final int MAX_BYTES = 5 << 20;
    /** The other members could not be told the time yet: nothing was written, and a retry may succeed. */
    private static final String RETRYABLE = "ClusterUnreachable:";

    final byte[] bytes;
    private final Runnable onAnswer;
    private String error;
    private long timestamp;
    private volatile boolean answered;

    private PendingEntry(byte[] bytes, Runnable onAnswer) {
        this.bytes = bytes;
        this.onAnswer = onAnswer;
    }

    /** One for each of `entries`; `onAnswer` runs once for each. Throws NotWritten if an entry is too large for the log. */
    static List<PendingEntry> of(List<byte[]> entries, Runnable onAnswer) {
        for (byte[] entry : entries) {
            if (entry.length > MAX_BYTES) {
                throw new NotWritten("TooLarge: an entry of " + entry.length + " bytes is above the " + MAX_BYTES + " that one"
                    + " block holds; nothing was written. Keep large values elsewhere and store where they are.");
            }
        }
        return entries.stream().map(entry -> new PendingEntry(entry, onAnswer)).toList();
    }

    /** The log has the entry, with this timestamp; or, with an error, has not. */
    void answer(String with, long at) {
        error = with;
        timestamp = at;
        answered = true;
        onAnswer.run();
    }

    /**
     * Blocks until the log has answered all, then throws NotWritten for the first entry that is not in the log. It says so if
     * others may be. The callback has to unpark this thread.
     */
    public static void await(List<PendingEntry> entries) {
        boolean interrupted = false;
        for (PendingEntry entry : entries) {
            while (!entry.answered) {
                LockSupport.park(entry);
                interrupted |= Thread.interrupted();
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        try {
            check(entries);
        } catch (NotWritten | RetryableHazelcastException refusal) {
            throw mayBeLogged(entries) ? NotWritten.afterAll(refusal) : refusal;
        }
    }

    /** The timestamp that the log gave the entry. It has to be answered without an error. */
    long timestamp() {
        return timestamp;
    }

    /** Whether the log may have one of these. All have to be answered. */
    static boolean mayBeLogged(List<PendingEntry> entries) {
        return entries.stream().anyMatch(entry -> entry.error == null || entry.error.startsWith(NotWritten.UNKNOWN));
    }

    /** Throws NotWritten with the log's own message for the first entry that is not in the log. All have to be answered. */
    static void check(List<PendingEntry> entries) {
        for (PendingEntry entry : entries) {
            if (!entry.answered) {
                throw new NotWritten(
                    NotWritten.UNKNOWN + " this node has a bug, and is told so in its log; look whether it was written.");
            }
            if (entry.error != null) {
                throw entry.error.startsWith(RETRYABLE) ? new RetryableHazelcastException(entry.error)
                    : new NotWritten(entry.error);
            }
        }
    }
}
