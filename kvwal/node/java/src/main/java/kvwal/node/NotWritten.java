package kvwal.node;

import com.hazelcast.spi.exception.SilentException;

/**
 * A change that is not in the log, and so not in memory: the message begins with the name of kvwal's error.
 *
 * It is for whoever asked. Hazelcast would log each of them at SEVERE: of a client that does not stop, a gigabyte in minutes.
 */
public final class NotWritten extends RuntimeException implements SilentException {
    private static final long serialVersionUID = 1L;

    public NotWritten(String message) {
        super(message, null, false, false);
    }

    /** For an operation that is refused when its change is in the log already. */
    public NotWritten afterAll() {
        return new NotWritten("CommitUnknown: it is in this member's log, and not in memory (" + getMessage() + ").");
    }
}
