package kvwal.node;

/** A change that is not in the log, and so not in memory: the message begins with the name of kvwal's error. */
public final class NotWritten extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public NotWritten(String message) {
        super(message, null, false, false);
    }

    /** For an operation that is refused when its change is in the log already. */
    public NotWritten afterAll() {
        return new NotWritten("CommitUnknown: it is in this member's log, and not in memory (" + getMessage() + ").");
    }
}
