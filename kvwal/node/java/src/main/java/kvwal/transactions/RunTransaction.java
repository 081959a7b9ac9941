package kvwal.transactions;

import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.concurrent.Callable;
import kvwal.node.MemberTask;
import kvwal.node.TaskIds;

/** Task of a client: all of its changes of one map, or none. */
public final class RunTransaction extends MemberTask implements Callable<Boolean> {
    private String id;
    private String map;
    private byte[] changes;

    @Override
    public Boolean call() {
        Transactions.of(instance).run(instance, id, map, changes);
        return true;
    }

    @Override
    public int getClassId() {
        return TaskIds.RUN_TRANSACTION;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        out.writeString(id);
        out.writeString(map);
        out.writeByteArray(changes);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        id = in.readString();
        map = in.readString();
        changes = in.readByteArray();
    }
}
