package kvwal.queues;

import com.hazelcast.core.EntryView;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.util.IterationType;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.MapServiceContext;
import com.hazelcast.map.impl.query.Query;
import com.hazelcast.map.impl.query.QueryResult;
import com.hazelcast.map.impl.query.QueryResultRow;
import com.hazelcast.map.impl.query.Target;
import com.hazelcast.spi.impl.InternalCompletableFuture;
import com.hazelcast.spi.impl.NodeEngineImpl;
import java.util.ArrayList;
import java.util.List;
import kvwal.clients.OfStructure;
import kvwal.codec.EntryCodec;
import kvwal.codec.ValueCodec;
import kvwal.node.HazelcastInternals;

/** Reads of the member that decides on the queues of a business: their keys, and some of their items. */
public final class QueueReads {
    private QueueReads() { }

    /** The keys in the memory of all members whose class begins with a text, as a block of deletes. */
    public static byte[] keys(HazelcastInstance instance, String map, String prefix) {
        Query query = Query.of().mapName(map).predicate(new OfStructure(prefix)).iterationType(IterationType.KEY).build();
        QueryResult found = maps(HazelcastInternals.engine(instance)).getQueryEngine(map).execute(query, Target.ALL_NODES);
        List<EntryCodec.Entry> keys = new ArrayList<>(found.size());
        for (QueryResultRow row : found.getRows()) {
            ValueCodec.Encoded key = ValueCodec.of(row.getKey());
            keys.add(new EntryCodec.Entry(key.name(), key.bytes(), "", new byte[0], true, 0));
        }
        return EntryCodec.block(keys, new long[keys.size()]);
    }

    /** The entries of the keys in a block, as their owners have them, in this order; without those that are absent. */
    public static byte[] entries(HazelcastInstance instance, String map, byte[] block) {
        NodeEngineImpl engine = HazelcastInternals.engine(instance);
        EntryCodec.Reader reader = new EntryCodec.Reader(block);
        List<EntryCodec.Entry> keys = new ArrayList<>();
        List<InternalCompletableFuture<EntryView<Data, Data>>> answers = new ArrayList<>();
        for (int i = 0; i < reader.count(); i++) {
            EntryCodec.Entry key = reader.next();
            Data data = ValueCodec.toData(key.keyClass(), key.key());
            keys.add(key);
            answers.add(engine.getOperationService().invokeOnPartition(MapService.SERVICE_NAME,
                maps(engine).getMapOperationProvider(map).createGetEntryViewOperation(map, data),
                engine.getPartitionService().getPartitionId(data)));
        }
        List<EntryCodec.Entry> found = new ArrayList<>();
        for (int i = 0; i < keys.size(); i++) {
            EntryView<Data, Data> view = answers.get(i).joinInternal();
            if (view != null) {
                ValueCodec.Encoded value = ValueCodec.of(view.getValue());
                long expires = view.getExpirationTime() == Long.MAX_VALUE ? 0 : view.getExpirationTime();
                EntryCodec.Entry key = keys.get(i);
                found.add(new EntryCodec.Entry(key.keyClass(), key.key(), value.name(), value.bytes(), false, expires));
            }
        }
        return EntryCodec.block(found, new long[found.size()]);
    }

    private static MapServiceContext maps(NodeEngineImpl engine) {
        return engine.<MapService>getService(MapService.SERVICE_NAME).getMapServiceContext();
    }
}
