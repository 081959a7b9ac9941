package kvwal.node;

import com.hazelcast.partition.PartitionLostEvent;
import com.hazelcast.partition.PartitionLostListener;

/** Hears that an owner and all its backups went at once: what they held is in logs, and no longer in memory. */
public final class Losses implements PartitionLostListener {
    private final Gate gate;
    private final int backups;

    public Losses(Gate gate, int backups) {
        this.gate = gate;
        this.backups = backups;
    }

    @Override
    public void partitionLost(PartitionLostEvent event) {
        if (event.getLostBackupCount() >= backups || event.allReplicasInPartitionLost()) {
            gate.lose("partition " + event.getPartitionId());
        }
    }
}
