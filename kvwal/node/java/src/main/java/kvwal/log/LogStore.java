package kvwal.log;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.instance.impl.NodeState;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.EntryStore;
import com.hazelcast.map.MapLoaderLifecycleSupport;
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

/**
 * Map store of a map with a log, as Hazelcast's configuration takes it. An EntryStore, so that the time at which an entry expires
 * reaches the log.
 *
 * Hazelcast calls none of its load and store methods: they would see deserialized objects, whose classes a member may not have.
 * LogDataStore stands below them and sees the serialized bytes.
 */
public class LogStore implements EntryStore<Object, Object>, MapLoaderLifecycleSupport {
    private static final ValueCodec.Encoded DROPPED = new ValueCodec.Encoded("dropped:none", new byte[0], 0, 0);
    private static final ValueCodec.Encoded DROPPED_VALUE = new ValueCodec.Encoded("none", new byte[0], 0, 0);

    protected final LogContext context;
    private final BatchQueue queue;
    private Node node;
    private SchemaLog schemas;
    private String name;
    /** The destroy mark is being written, while memory may still hold entries from before it. */
    private boolean destroyed;

    public LogStore(LogContext context, String map) {
        this.context = context;
        this.queue = context.queues().open(map);
    }

    @Override
    public void init(HazelcastInstance instance, Properties properties, String map) {
        name = map;
        node = HazelcastInternals.node(instance);
        schemas = new SchemaLog(HazelcastInternals.engine(instance), this::append);
    }

    /**
     * The map is destroyed, or this member shuts down. A destroyed map's log gets a mark that ends all entries before it. The
     * call that destroys the map waits for the mark, so later writes stand after it.
     */
    @Override
    public void destroy() {
        if (node.getState() == NodeState.ACTIVE && node.isRunning() && context.gate().isOpen()) {
            context.pending().forget(name);
            markDestroyed();
            append(EntryCodec.encode(DROPPED, DROPPED_VALUE, 0));
            context.queues().release(queue);
        }
    }

    private synchronized void markDestroyed() {
        destroyed = true;
    }

    /** Throws unless this member may write a change of this key now. */
    public void checkWritable(Data key) {
        context.checkWritable(node, node.getPartitionService().getPartitionId(key));
    }

    /** Marks a change of these keys, about to be written, as pending; null if no read has to wait for its backups. */
    PendingChange beginPending(List<Change> changes) {
        List<Data> keys = changes.stream().map(Change::key).toList();
        return keys.isEmpty() ? null
            : context.pending().begin(name, node.getPartitionService().getPartitionId(keys.get(0)), keys);
    }

    /** Change of one key; `value` null for a delete. */
    public record Change(Data key, Data value) { }

    /** Returns when all of them are in the log. */
    public void write(List<Change> changes, long expires) {
        context.gate().check();
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
        context.queues().send(queue, entries);
    }

    /** Throws unless this member serves. */
    void checkLoaded() {
        context.gate().check();
    }

    /** Returns when the log has every schema that its entries may need. */
    public void appendSchemas() {
        schemas.append();
    }

    /** A key as the log stores it. */
    public ValueCodec.Encoded encodeKey(Data key) {
        return ValueCodec.of(key);
    }

    /**
     * Sends entries of the log of this key without blocking, as BatchQueues.post. Sends none once the map is destroyed: after
     * the destroy mark they would bring keys back.
     */
    public synchronized List<PendingEntry> post(Data key, List<byte[]> entries, Thread writer) {
        context.gate().check();
        return destroyed ? List.of() : context.queues().post(queue, entries, writer);
    }

    /** The log refused what was pending. */
    void refused(PendingChange pending) {
        if (pending != null) {
            context.pending().settle(pending);
        }
    }

    private void append(byte[] entry) {
        context.queues().send(queue, entry);
    }

    /** Done when this member's memory holds everything: MapKeyLoader makes operations wait for it. */
    public Future<?> recovered() {
        return context.gate().recovered();
    }

    @Override
    public Iterable<Object> loadAllKeys() {
        throw bypassed();
    }

    @Override
    public MetadataAwareValue<Object> load(Object key) {
        throw bypassed();
    }

    @Override
    public Map<Object, MetadataAwareValue<Object>> loadAll(Collection<Object> keys) {
        throw bypassed();
    }

    @Override
    public void store(Object key, MetadataAwareValue<Object> value) {
        throw bypassed();
    }

    @Override
    public void storeAll(Map<Object, MetadataAwareValue<Object>> map) {
        throw bypassed();
    }

    @Override
    public void delete(Object key) {
        throw bypassed();
    }

    @Override
    public void deleteAll(Collection<Object> keys) {
        throw bypassed();
    }

    private static IllegalStateException bypassed() {
        return new IllegalStateException(
            "Hazelcast passed kvwal's MapDataStores or MapKeyLoader by: is kvwal's jar first on the class path?");
    }
}
