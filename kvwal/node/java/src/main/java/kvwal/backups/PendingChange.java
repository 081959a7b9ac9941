package kvwal.backups;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.spi.impl.operationservice.Operation;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** A change of one partition that a backup may lack: from before it is logged until the backups have it, or will not serve without it. */
public final class PendingChange {
    /** Where changes are settled together. */
    record MapPartition(String map, int partition) { }

    final MapPartition place;
    /** Done when it is settled; failed when this member can no longer find out, since another one owns the partition. */
    final CompletableFuture<Void> settled = new CompletableFuture<>();
    private final List<Data> keys;
    /** Whose change it is; null once that is answered: what it changed in memory is there by then, and its backups are sent. */
    private volatile Operation operation;
    private volatile long answered;
    /** Nobody will hear of its backups' acknowledgements, or they did not come. */
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

    /** Whether it is time to ask the backups: acknowledgements usually come much sooner than after `patience` nanoseconds. */
    boolean isDue(long now, long patience) {
        return isAnswered() && (isUnsure || now - answered > patience);
    }
}
