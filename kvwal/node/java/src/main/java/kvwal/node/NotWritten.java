package kvwal.node;

import com.hazelcast.spi.exception.SilentException;

/**
 * Error of a change that is neither in the log nor in memory. Its message begins with the name of kvwal's error.
 *
 * Clients read this class's full name, so it stays. It is for the caller alone: Hazelcast would log each one at SEVERE, for a
 * client that does not stop a gigabyte in minutes.
 */
public final class NotWritten extends RuntimeException implements SilentException {
    /** Begins the message of an error after which the change may be in a log. */
    public static final String UNKNOWN = "CommitUnknown:";
    private static final long serialVersionUID = 1L;

    public NotWritten(String message) {
        super(message, null, false, false);
    }

    /** The error of an operation that was refused after its change was logged, or a part of its changes. */
    public static NotWritten afterAll(RuntimeException refusal) {
        return refusal instanceof NotWritten known && known.isUnknown() ? known : new NotWritten(UNKNOWN
            + " it, or a part of it, is in this member's log, and not in memory (" + refusal.getMessage() + ").");
    }

    /** Whether the change may be in the log after all. */
    public boolean isUnknown() {
        return getMessage().startsWith(UNKNOWN);
    }
}
