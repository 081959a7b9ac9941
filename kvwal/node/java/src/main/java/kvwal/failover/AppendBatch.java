package kvwal.failover;

import com.hazelcast.map.EntryProcessor;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.Map;
import kvwal.node.MemberTask;
import kvwal.node.TaskIds;

/**
 * Task: append the next piece of a FailoverBatch, on the thread of its partition. Answers false if the partition is no longer at
 * the member that sent it.
 */
public final class AppendBatch extends MemberTask implements EntryProcessor<Object, Object, Boolean> {
    private String member;
    private long number;

    public AppendBatch() { }

    public AppendBatch(String member, long number) {
        this.member = member;
        this.number = number;
    }

    @Override
    public Boolean process(Map.Entry<Object, Object> found) {
        FailoverBatch batch = FailoverBatch.running(instance).get(number);
        if (batch == null || !instance.getCluster().getLocalMember().getUuid().toString().equals(member)) {
            return false;
        }
        batch.take();
        return true;
    }

    /** Nothing is changed. */
    @Override
    public EntryProcessor<Object, Object, Boolean> getBackupProcessor() {
        return null;
    }

    @Override
    public int getClassId() {
        return TaskIds.APPEND_BATCH;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        out.writeString(member);
        out.writeLong(number);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        member = in.readString();
        number = in.readLong();
    }
}