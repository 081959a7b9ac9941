package kvwal.backups;

import com.hazelcast.internal.partition.InternalPartition;
import com.hazelcast.internal.partition.PartitionReplica;
import com.hazelcast.internal.partition.impl.InternalPartitionServiceImpl;
import com.hazelcast.internal.partition.impl.PartitionReplicaManager;
import com.hazelcast.internal.services.ServiceNamespace;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import com.hazelcast.nio.serialization.IdentifiedDataSerializable;
import com.hazelcast.spi.impl.AllowedDuringPassiveState;
import com.hazelcast.spi.impl.operationservice.Operation;
import java.io.IOException;
import java.util.Set;
import kvwal.node.TaskIds;

/**
 * Operation that the owner of a partition sends to a backup: does it have all changes of a map up to a version? It arrives after
 * the backups that it asks for. A backup that is behind requests the whole partition of the map, as in Hazelcast's own check.
 */
public final class BackupCheck extends Operation implements IdentifiedDataSerializable, AllowedDuringPassiveState {
    private String map;
    private long version;
    /** Discards an earlier request of the backup, whose answer may be lost with its connection. */
    private boolean insists;
    private transient boolean hasAll;

    public BackupCheck() { }

    BackupCheck(String map, long version, boolean insists) {
        this.map = map;
        this.version = version;
        this.insists = insists;
    }

    @Override
    public void run() {
        InternalPartitionServiceImpl partitions = (InternalPartitionServiceImpl) getNodeEngine().getPartitionService();
        InternalPartition partition = partitions.getPartition(getPartitionId(), false);
        int replica = getReplicaIndex();
        boolean isExpected = partition.getReplicaIndex(PartitionReplica.from(getNodeEngine().getLocalMember())) == replica
            && getCallerAddress().equals(partition.getOwnerOrNull());
        if (!isExpected) {
            return;
        }
        ServiceNamespace namespace = MapService.getObjectNamespace(map);
        PartitionReplicaManager manager = partitions.getReplicaManager();
        long own = manager.getPartitionReplicaVersions(getPartitionId(), namespace)[replica - 1];
        hasAll = own == version && own != PartitionReplicaManager.REQUIRES_SYNC
            && !manager.isPartitionReplicaVersionDirty(getPartitionId(), namespace);
        if (!hasAll) {
            if (insists) {
                manager.clearReplicaSyncRequest(getPartitionId(), namespace, replica);
            }
            manager.triggerPartitionReplicaSync(getPartitionId(), Set.of(namespace), replica);
        }
    }

    @Override
    public Object getResponse() {
        return hasAll;
    }

    /** False: it goes to a backup, not to the owner. */
    @Override
    public boolean validatesTarget() {
        return false;
    }

    @Override
    public void logError(Throwable error) {
        // The owner asks again.
    }

    @Override
    public String getServiceName() {
        return MapService.SERVICE_NAME;
    }

    @Override
    public int getFactoryId() {
        return TaskIds.FACTORY;
    }

    @Override
    public int getClassId() {
        return TaskIds.BACKUP_CHECK;
    }

    @Override
    protected void writeInternal(ObjectDataOutput out) throws IOException {
        super.writeInternal(out);
        out.writeString(map);
        out.writeLong(version);
        out.writeBoolean(insists);
    }

    @Override
    protected void readInternal(ObjectDataInput in) throws IOException {
        super.readInternal(in);
        map = in.readString();
        version = in.readLong();
        insists = in.readBoolean();
    }
}
