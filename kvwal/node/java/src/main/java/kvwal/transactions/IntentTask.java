package kvwal.transactions;

import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import kvwal.node.MemberTask;

/** Task on one intent, which it names by its key. */
abstract class IntentTask extends MemberTask {
    String intent;

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        out.writeString(intent);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        intent = in.readString();
    }
}
