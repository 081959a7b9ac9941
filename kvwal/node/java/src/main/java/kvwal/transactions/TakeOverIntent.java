package kvwal.transactions;

import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.concurrent.Callable;
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
        return AppliedChanges.of(instance).takeOver(intent, expander);
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
