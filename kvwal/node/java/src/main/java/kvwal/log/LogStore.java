package kvwal.log;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.instance.impl.NodeState;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.EntryLoader;
import com.hazelcast.map.EntryStore;
import com.hazelcast.map.MapLoaderLifecycleSupport;
import com.hazelcast.map.MapStoreFactory;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import kvwal.backups.PendingChange;
import kvwal.codec.EntryCodec;
import kvwal.codec.SchemaLog;
import kvwal.codec.ValueCodec;
import kvwal.node.HazelcastInternals;
import kvwal.node.ReadyGate;
import kvwal.transactions.AppliedChanges;
import kvwal.transactions.IntentStore;
import kvwal.transactions.Transactions;

/**
 * What Hazelcast's configuration gets as the store of a durable map. An EntryStore, so that expiry reaches the log.
 *
 * Its own store methods would see objects, made from bytes of which the classes may not even be here: LogDataStore, which
 * stands below, sees the bytes, and none of these is ever called.
 */
public class LogStore implements EntryStore<Object, Object>, MapLoaderLifecycleSupport {
    private static final ValueCodec.Encoded DROPPED = new ValueCodec.Encoded("dropped:none", new byte[0], 0, 0);
    private static final ValueCodec.Encoded DROPPED_VALUE = new ValueCodec.Encoded("none", new byte[0], 0, 0);

    public final ReadyGate gate;
    public final BatchQueues mailboxes;
    private final BatchQueues.BatchQueue mailbox;
    private Node node;
    private SchemaLog schemas;
    private AppliedChanges applied;
    private String name;
    /** The mark is on its way: memory may still hold what it ends. */
    private boolean destroyed;

    public LogStore(BatchQueues mailboxes, ReadyGate gate, String map) {
        this.mailboxes = mailboxes;
        this.mailbox = mailboxes.open(map);
        this.gate = gate;
    }

    /** Makes the store of each map when Hazelcast first meets its name. */
    public static final class Factory implements MapStoreFactory<Object, EntryLoader.MetadataAwareValue<Object>> {
        private final BatchQueues mailboxes;
        private final ReadyGate gate;

        public Factory(BatchQueues mailboxes, ReadyGate gate) {
            this.mailboxes = mailboxes;
            this.gate = gate;
        }

        @Override
        public LogStore newMapStore(String map, Properties properties) {
            return map.equals(Transactions.MAP) ? new IntentStore(mailboxes, gate) : new LogStore(mailboxes, gate, map);
        }
    }

    /** Whether clients' changes of a map of this name are logged. */
    public static boolean has(String map) {
        return !map.startsWith("tmp.") && !map.startsWith("__");
    }

    @Override
    public void init(HazelcastInstance instance, Properties properties, String map) {
        name = map;
        applied = Transactions.of(instance).applied();
        node = HazelcastInternals.node(instance);
        schemas = new SchemaLog(HazelcastInternals.engine(instance), this::append);
    }

    /**
     * The map was destroyed, or this member is shutting down. A destroyed map's log gets a mark: what stands before it is gone.
     * Whoever destroys it waits for the mark, so what they write afterwards stands behind it.
     */
    @Override
    public void destroy() {
        gate.pending.forget(name);
        if (node.getState() == NodeState.ACTIVE && node.isRunning() && gate.isOpen()) {
            markDestroyed();
            append(EntryCodec.encode(DROPPED, DROPPED_VALUE, 0));
            mailboxes.release(mailbox);
        }
    }

    private synchronized void markDestroyed() {
        destroyed = true;
    }

    /** Returns when a change of this key may be written. */
    public void pass(Data key) {
        gate.check();
        gate.fence.pass(node, node.getPartitionService().getPartitionId(key));
    }

    /** A change of these keys is about to be written; null if nobody has to wait for its backups. See PendingChanges. */
    PendingChange pend(List<Change> changes) {
        List<Data> keys = changes.stream().map(Change::key).toList();
        return keys.isEmpty() ? null : gate.pending.begin(name, node.getPartitionService().getPartitionId(keys.get(0)), keys);
    }

    /** What a key becomes; `value` null for a delete. */
    public record Change(Data key, Data value) { }

    /** Returns when all of them are in the log. */
    public void write(List<Change> changes, long expires) {
        gate.check();
        List<byte[]> entries = new ArrayList<>(changes.size());
        boolean opaque = false;
        for (Change change : changes) {
            ValueCodec.Encoded key = ValueCodec.of(change.key);
            ValueCodec.Encoded value = change.value == null ? null : ValueCodec.of(change.value);
            opaque |= key.isOpaque() || value != null && value.isOpaque();
            entries.add(EntryCodec.encode(key, value, expires));
        }
        if (opaque) {
            schemas.append();
        }
        mailboxes.send(mailbox, entries);
    }

    /** Returns when the log has every schema that its entries may need. */
    public void appendSchemas() {
        schemas.append();
    }

    /** A key as the log has it. */
    public ValueCodec.Encoded word(Data key) {
        return ValueCodec.of(key);
    }

    /**
     * See BatchQueues. All entries belong into the log that this key's belong into. Nothing is sent once the map is destroyed: it
     * would stand behind the mark, and come back.
     */
    public synchronized List<BatchQueues.PendingEntry> post(Data key, List<byte[]> entries, Thread writer) {
        gate.check();
        return destroyed ? List.of() : mailboxes.post(mailbox, entries, writer);
    }

    /** A change of this key is not in the log. */
    void refused(Data key) {
        applied.refused(name, key);
    }

    private void append(byte[] entry) {
        mailboxes.send(mailbox, entry);
    }

    /** Done when this member's memory is whole: see MapKeyLoader. */
    public Future<?> recovered() {
        return gate.recovered();
    }

    @Override
    public Iterable<Object> loadAllKeys() {
        throw passedBy();
    }

    @Override
    public MetadataAwareValue<Object> load(Object key) {
        throw passedBy();
    }

    @Override
    public Map<Object, MetadataAwareValue<Object>> loadAll(Collection<Object> keys) {
        throw passedBy();
    }

    @Override
    public void store(Object key, MetadataAwareValue<Object> value) {
        throw passedBy();
    }

    @Override
    public void storeAll(Map<Object, MetadataAwareValue<Object>> map) {
        throw passedBy();
    }

    @Override
    public void delete(Object key) {
        throw passedBy();
    }

    @Override
    public void deleteAll(Collection<Object> keys) {
        throw passedBy();
    }

    private static IllegalStateException passedBy() {
        return new IllegalStateException("Hazelcast passed kvwal's MapDataStores or MapKeyLoader by: is kvwal's jar first on the class path?");
    }
}
