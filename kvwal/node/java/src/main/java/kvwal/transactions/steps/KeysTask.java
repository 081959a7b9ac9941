package kvwal.transactions.steps;

import com.hazelcast.internal.nio.IOUtil;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;

/** Task of a transaction that changes no entry: it is about the locks of keys. */
abstract class KeysTask extends TransactionTask {
    private Collection<Data> keys = new ArrayList<>();

    KeysTask() { }

    KeysTask(String intent, Collection<Data> keys) {
        this.intent = intent;
        this.keys = keys;
    }

    static KeysTask asBackup(KeysTask task) {
        task.isBackup = true;
        return task;
    }

    @Override
    Collection<Data> keys() {
        return keys;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        super.writeData(out);
        out.writeInt(keys.size());
        for (Data key : keys) {
            IOUtil.writeData(out, key);
        }
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        super.readData(in);
        int count = in.readInt();
        for (int i = 0; i < count; i++) {
            keys.add(IOUtil.readData(in));
        }
    }
}
