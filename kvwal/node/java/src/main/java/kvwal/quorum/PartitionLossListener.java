package kvwal.quorum;

import com.hazelcast.core.LifecycleEvent;
import com.hazelcast.core.LifecycleListener;
import com.hazelcast.partition.PartitionLostEvent;
import com.hazelcast.partition.PartitionLostListener;
import kvwal.node.ReadyGate;

/**
 * Hears that this member's memory is no longer whole: an owner and all its backups went at once, or it was cut off, meets the
 * others again, and gives its memory up for theirs. What it held is in logs.
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
