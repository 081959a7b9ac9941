package kvwal.transactions;

import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import kvwal.node.MemberTask;
import kvwal.node.MemoryLimit;
import kvwal.node.TaskIds;

/** Task of a client: all of its changes of one map, or none. With conditions: only if each guard has the client's value. */
public final class RunTransaction extends MemberTask implements Callable<String> {
    /** For the client of an earlier version, which sends no transaction again. */
    private static final long UNTIMED_MILLIS = 5_000;

    private final boolean isConditional;
    private final boolean isTimed;
    private String id;
    private String map;
    private byte[] changes;
    private byte[] conditions;
    /** Time of the client's clock when it sent the task: expiry times are by that clock. */
    private long sent;
    /** How long after its arrival it may lock keys. The client waits so long before it says that it does not know the outcome. */
    private long millis = UNTIMED_MILLIS;
    private transient long received = System.nanoTime();

    /** `isTimed`: not of a client of an earlier version. */
    public RunTransaction(boolean isConditional, boolean isTimed) {
        this.isConditional = isConditional;
        this.isTimed = isTimed;
    }

    /** When the member got it: a time of System.nanoTime. */
    void setArrival(long arrived) {
        received = arrived;
    }

    /**
     * The name of a Transactions.Outcome: clients know these. Without conditions, the timestamp follows after a space if it is
     * known: clients of earlier versions ignore that answer.
     */
    @Override
    public String call() {
        long until = received + TimeUnit.MILLISECONDS.toNanos(millis);
        long since = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - received);
        long ahead = isTimed ? System.currentTimeMillis() - since - sent : 0;
        Changes found = new Changes(changes, ahead);
        found.takeRoom(MemoryLimit.of(instance));
        Transactions transactions = Transactions.of(instance);
        if (isConditional) {
            return transactions.runIf(instance, id, map, found, conditions, until).outcome().name();
        }
        Transactions.Answer answer = transactions.run(instance, id, map, found, until, isTimed);
        return answer.outcome().name() + (answer.timestamp() > 0 ? " " + answer.timestamp() : "");
    }

    @Override
    public int getClassId() {
        return isConditional ? isTimed ? TaskIds.RUN_TIMED_CONDITIONAL : TaskIds.RUN_CONDITIONAL
            : isTimed ? TaskIds.RUN_TIMED : TaskIds.RUN_TRANSACTION;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        out.writeString(id);
        out.writeString(map);
        out.writeByteArray(changes);
        if (isConditional) {
            out.writeByteArray(conditions);
        }
        if (isTimed) {
            out.writeLong(sent);
            out.writeLong(millis);
        }
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        id = in.readString();
        map = in.readString();
        changes = in.readByteArray();
        conditions = isConditional ? in.readByteArray() : null;
        if (isTimed) {
            sent = in.readLong();
            millis = in.readLong();
        }
    }
}
