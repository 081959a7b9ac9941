package kvwal.transactions;

import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.concurrent.Callable;
import kvwal.node.MemberTask;
import kvwal.node.TaskIds;
import kvwal.transactions.steps.IntentKey;

/**
 * Task: is a transaction still expanded? The member that expands it answers whether it does so; any other one, whether that
 * member is still there. One that is not is never a member again, and no intent of it is logged any more (IntentStore).
 */
public final class IsExpanded extends MemberTask implements Callable<Boolean> {
    private String intent;

    public IsExpanded() { }

    IsExpanded(String intent) {
        this.intent = intent;
    }

    @Override
    public Boolean call() {
        return Transactions.own(instance).equals(IntentKey.expander(intent)) ? Transactions.of(instance).isRunning(intent)
            : Transactions.isMember(instance, IntentKey.expander(intent));
    }

    @Override
    public int getClassId() {
        return TaskIds.IS_EXPANDED;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        out.writeString(intent);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        intent = in.readString();
    }
}
