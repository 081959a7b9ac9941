package kvwal.log;

/**
 * Operation that can be told the timestamp of its change in the log. Only the member that created the operation sees it. The
 * responses of single puts and deletes tell it to any member: see TimestampResponse.
 */
public interface Timestamped {
    /** The change is in the log with this timestamp. */
    void setTimestamp(long timestamp);

    /** The timestamp of the change; 0 if another member owns the key, or nothing was logged. */
    long timestamp();
}
