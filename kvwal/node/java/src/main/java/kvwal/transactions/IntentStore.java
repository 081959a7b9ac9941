package kvwal.transactions;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.serialization.Data;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import kvwal.codec.EntryCodec;
import kvwal.codec.ValueCodec;
import kvwal.log.BatchQueues;
import kvwal.log.LogStore;
import kvwal.node.ReadyGate;

/** Where intents are logged: each in the log of the map that it is of, as an entry of the structure "intent". */
public final class IntentStore extends LogStore {
    private final Map<String, BatchQueues.BatchQueue> boxes = new ConcurrentHashMap<>();

    public IntentStore(BatchQueues mailboxes, ReadyGate gate) {
        super(mailboxes, gate, Transactions.MAP);
    }

    /** The first intent that this member owns, or is the backup of, makes it look after those of members that go. */
    @Override
    public void init(HazelcastInstance instance, Properties properties, String map) {
        super.init(instance, properties, map);
        Transactions.of(instance).watch(instance);
    }

    @Override
    public void write(List<Change> changes, long expires) {
        gate.check();
        for (Change change : changes) {
            ValueCodec.Encoded value = change.value() == null ? null : ValueCodec.of(change.value());
            mailboxes.send(box(change.key()), List.of(EntryCodec.encode(word(change.key()), value, expires)));
        }
    }

    @Override
    public ValueCodec.Encoded word(Data key) {
        ValueCodec.Encoded found = ValueCodec.of(key);
        return new ValueCodec.Encoded(Transactions.KEY_CLASS, found.array(), found.from(), found.length());
    }

    @Override
    public List<BatchQueues.PendingEntry> post(Data key, List<byte[]> entries, Thread writer) {
        gate.check();
        return mailboxes.post(box(key), entries, writer);
    }

    private BatchQueues.BatchQueue box(Data key) {
        ValueCodec.Encoded found = ValueCodec.of(key);
        String map = Transactions.map(new String(found.array(), found.from(), found.length(), StandardCharsets.UTF_8));
        return boxes.computeIfAbsent(map, mailboxes::open);
    }

    /** Nobody destroys them. */
    @Override
    public void destroy() { }
}
