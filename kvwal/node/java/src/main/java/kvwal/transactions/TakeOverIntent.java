package kvwal.transactions;

import com.hazelcast.cluster.Member;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import kvwal.node.TaskIds;

/** Task: another member expands the intent from now on. Answers with the changes that are applied, null while that is unknown. */
public final class TakeOverIntent extends IntentTask implements Callable<byte[]> {
    private String expander;

    public TakeOverIntent() { }

    public TakeOverIntent(String intent, String expander) {
        this.intent = intent;
        this.expander = expander;
    }

    @Override
    public byte[] call() {
        Set<UUID> living = instance.getCluster().getMembers().stream().map(Member::getUuid).collect(Collectors.toSet());
        return AppliedChanges.of(instance).takeOver(intent, expander, living);
    }

    @Override
    public int getClassId() {
        return TaskIds.TAKE_OVER_INTENT;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        super.writeData(out);
        out.writeString(expander);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        super.readData(in);
        expander = in.readString();
    }
}
