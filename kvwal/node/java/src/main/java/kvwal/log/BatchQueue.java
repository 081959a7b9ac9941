package kvwal.log;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.Condition;

/** Queue of one business: the batch that is under way, and the entries of the next one. Guarded by the lock of BatchQueues. */
public final class BatchQueue {
    final int number;
    final String business;
    final Condition notFull;
    List<PendingEntry> next = new ArrayList<>();
    List<PendingEntry> underWay = new ArrayList<>();
    /** Bytes of `next`. */
    int bytes;
    boolean busy;
    /** Number of batches that the log has answered. */
    long answered;

    BatchQueue(int number, String business, Condition notFull) {
        this.number = number;
        this.business = business;
        this.notFull = notFull;
    }

    /** The value of `answered` once the log has answered everything that was sent so far. */
    long sent() {
        return answered + (busy ? 1 : 0) + (next.isEmpty() ? 0 : 1);
    }
}
