package kvwal.transactions;

import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.concurrent.Callable;
import kvwal.node.MemberTask;
import kvwal.node.TaskIds;

/** Task of a client: all of its changes of one map, or none. */
public class RunTransaction extends MemberTask implements Callable<String> {
    /** The same if each guard has the value that the client has read: see Guards. */
    public static final class Conditional extends RunTransaction {
        private byte[] conditions;

        @Override
        public String call() {
            IntentWatch.start(instance);
            return Transactions.of(instance).runIf(instance, id, map, changes, conditions).name();
        }

        @Override
        public int getClassId() {
            return TaskIds.RUN_CONDITIONAL;
        }

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            super.writeData(out);
            out.writeByteArray(conditions);
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            super.readData(in);
            conditions = in.readByteArray();
        }
    }

    String id;
    String map;
    byte[] changes;

    /** The name of a Transactions.Outcome: clients know these. */
    @Override
    public String call() {
        Transactions.of(instance).run(instance, id, map, changes);
        return Transactions.Outcome.DONE.name();
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
