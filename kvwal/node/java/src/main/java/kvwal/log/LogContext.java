package kvwal.log;

import com.hazelcast.internal.serialization.Data;
import java.util.function.BiConsumer;
import kvwal.backups.PendingChanges;
import kvwal.clock.OwnershipFence;
import kvwal.node.ReadyGate;

/** What the stores of all maps of a member share. `onRefused` hears of each map and key of which the log refused a change. */
public record LogContext(BatchQueues queues, ReadyGate gate, OwnershipFence fence, PendingChanges pending,
                         BiConsumer<String, Data> onRefused) { }
