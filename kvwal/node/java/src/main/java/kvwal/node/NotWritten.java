package kvwal.node;

import com.hazelcast.spi.exception.SilentException;

/**
 * Error of a change that is neither in the log nor in memory. Its message begins with the name of kvwal's error.
 *
 * Clients read this class's full name, so it stays. It is for the caller alone: Hazelcast would log each one at SEVERE, for a
 * client that does not stop a gigabyte in minutes.
 */
public final class NotWritten extends RuntimeException implements SilentException {
    private static final long serialVersionUID = 1L;

    public NotWritten(String message) {
        super(message, null, false, false);
    }

    /** The same for an operation that is refused after its change was logged. */
    public NotWritten afterAll() {
        return new NotWritten("CommitUnknown: it is in this member's log, and not in memory (" + getMessage() + ").");
    }
}
