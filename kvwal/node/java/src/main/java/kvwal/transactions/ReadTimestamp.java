package kvwal.transactions;

import com.hazelcast.core.ReadOnly;
import com.hazelcast.map.EntryProcessor;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.Map;
import kvwal.log.LogContext;
import kvwal.node.HazelcastInternals;
import kvwal.node.MemberTask;
import kvwal.node.TaskIds;

/**
 * Task: read a timestamp between the earlier and the later changes of a partition, see LogContext. It is sent to a key of the
 * partition, because Hazelcast repeats it until the partition's owner answers, and that one may write.
 */
public final class ReadTimestamp extends MemberTask implements EntryProcessor<Object, Object, Long>, ReadOnly {
    private String map;
    private int partition;

    public ReadTimestamp() { }

    public ReadTimestamp(String map, int partition) {
        this.map = map;
        this.partition = partition;
    }

    @Override
    public Long process(Map.Entry<Object, Object> entry) {
        return LogContext.of(instance).timestamp(HazelcastInternals.node(instance), map, partition);
    }

    /** None: nothing changes. */
    @Override
    public EntryProcessor<Object, Object, Long> getBackupProcessor() {
        return null;
    }

    @Override
    public int getClassId() {
        return TaskIds.READ_TIMESTAMP;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        out.writeString(map);
        out.writeInt(partition);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        map = in.readString();
        partition = in.readInt();
    }
}
