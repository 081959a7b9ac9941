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
import kvwal.log.BatchQueue;
import kvwal.log.LogContext;
import kvwal.log.LogStore;
import kvwal.log.PendingEntry;
import kvwal.node.NotWritten;
import kvwal.transactions.steps.IntentKey;

/** Map store of intents: each is logged in the log of its map, as an entry of the structure "intent". */
public final class IntentStore extends LogStore {
    private final Map<String, BatchQueue> queues = new ConcurrentHashMap<>();
    private HazelcastInstance instance;

    public IntentStore(LogContext context) {
        super(context, IntentKey.MAP);
    }

    /** Whether the map of this name is that of the intents. */
    public static boolean isOf(String map) {
        return map.equals(IntentKey.MAP);
    }

    @Override
    public void init(HazelcastInstance instance, Properties properties, String map) {
        super.init(instance, properties, map);
        this.instance = instance;
        Transactions.of(instance).expectIntents();
    }

    @Override
    public void write(List<Change> changes, long expires) {
        context.gate().check();
        for (Change change : changes) {
            if (change.value() != null) {
                checkExpander(text(change.key()));
            }
            ValueCodec.Encoded value = change.value() == null ? null : ValueCodec.of(change.value());
            context.queues().send(queue(change.key()), List.of(EntryCodec.encode(encodeKey(change.key()), value, expires)));
        }
    }

    @Override
    public ValueCodec.Encoded encodeKey(Data key) {
        ValueCodec.Encoded found = ValueCodec.of(key);
        return new ValueCodec.Encoded(IntentKey.CLASS, found.array(), found.from(), found.length());
    }

    @Override
    public List<PendingEntry> post(Data key, List<byte[]> entries, Thread writer) {
        context.gate().check();
        return context.queues().post(queue(key), entries, writer);
    }

    /** Once its member is gone, others may have released the locks of a transaction without an intent: it comes too late. */
    private void checkExpander(String key) {
        if (IntentKey.hasLocks(key) && !Transactions.isMember(instance, IntentKey.expander(key))) {
            throw new NotWritten("ClusterUnreachable: the member that began this transaction has left; nothing was written.");
        }
    }

    private BatchQueue queue(Data key) {
        return queues.computeIfAbsent(IntentKey.map(text(key)), context.queues()::open);
    }

    private static String text(Data key) {
        ValueCodec.Encoded found = ValueCodec.of(key);
        return new String(found.array(), found.from(), found.length(), StandardCharsets.UTF_8);
    }

    /** Does nothing: the map of intents is never destroyed. */
    @Override
    public void destroy() { }
}
