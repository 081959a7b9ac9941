package kvwal.backups;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.spi.impl.operationservice.Operation;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * Change of one partition that a backup may lack. It begins before the change is logged, and ends when every backup has it or can
 * no longer serve without it.
 */
public final class PendingChange {
    /** One partition of one map: its changes are settled together. */
    record MapPartition(String map, int partition) { }

    final MapPartition place;
    /** Done when the change is settled; failed when another member owns the partition, so that this one cannot find out. */
    final CompletableFuture<Void> settled = new CompletableFuture<>();
    private final List<Data> keys;
    /** The operation that made the change; null once it has responded: memory has the change then, and backups were sent. */
    private volatile Operation operation;
    private volatile long answered;
    /** Acknowledgements of the backups did not come, or cannot be heard. */
    private volatile boolean isUnsure;

    PendingChange(MapPartition place, List<Data> keys, Operation operation) {
        this.place = place;
        this.keys = keys;
        this.operation = operation;
    }

    boolean isOf(Operation asked) {
        return operation == asked;
    }

    boolean touches(Data key) {
        return keys.contains(key);
    }

    void answer() {
        answered = System.nanoTime();
        operation = null;
    }

    boolean isAnswered() {
        return operation == null;
    }

    void doubt() {
        isUnsure = true;
    }

    /** Whether to ask the backups now: acknowledgements usually come long before `limit` nanoseconds. */
    boolean isDue(long now, long limit) {
        return isAnswered() && (isUnsure || now - answered > limit);
    }
}
