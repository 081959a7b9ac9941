package kvwal.quorum;

import com.hazelcast.core.LifecycleEvent;
import com.hazelcast.core.LifecycleListener;
import com.hazelcast.partition.PartitionLostEvent;
import com.hazelcast.partition.PartitionLostListener;
import kvwal.node.ReadyGate;

/**
 * Listener for a loss of memory: an owner and all its backups left at once, or this member was cut off, meets the others again,
 * and discards its memory for theirs. The logs still have the entries.
 */
public final class PartitionLossListener implements PartitionLostListener, LifecycleListener {
    private final ReadyGate gate;
    private final int backups;

    public PartitionLossListener(ReadyGate gate, int backups) {
        this.gate = gate;
        this.backups = backups;
    }

    @Override
    public void partitionLost(PartitionLostEvent event) {
        if (event.getLostBackupCount() >= backups || event.allReplicasInPartitionLost()) {
            gate.lose("too many members went at once, or this one was cut off from them: memory lost partition "
                + event.getPartitionId());
        }
    }

    @Override
    public void stateChanged(LifecycleEvent event) {
        if (event.getState() == LifecycleEvent.LifecycleState.MERGING) {
            gate.giveUp("this member was cut off from the others and meets them again: their memory counts");
        }
    }
}
