package kvwal.codec;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.serialization.impl.compact.Schema;
import com.hazelcast.internal.serialization.impl.compact.schema.MemberSchemaService;
import com.hazelcast.spi.impl.NodeEngineImpl;
import java.util.HashSet;
import java.util.Set;
import java.util.function.Consumer;

/**
 * Writer of Compact schemas to one log. A Compact value carries only the number of its schema, and the cluster keeps schemas in
 * memory only. So each log gets the schemas that its entries may need, before the entries: as entries of the structure "schema".
 *
 * The schemas of a value, nested ones included, cannot be read off its bytes. A client registers all of them with the cluster
 * before it sends the value; so every schema that the member knows and this log lacks is written.
 */
public final class SchemaLog {
    public static final String KEY_CLASS = "schema:int64";

    private final NodeEngineImpl engine;
    private final MemberSchemaService service;
    private final Consumer<byte[]> append;
    private final Set<Long> appended = new HashSet<>();
    private volatile int count;

    public SchemaLog(NodeEngineImpl engine, Consumer<byte[]> append) {
        this.engine = engine;
        this.service = engine.getNode().getSchemaService();
        this.append = append;
    }

    /** Returns when the log has every schema that this member knows. */
    public void append() {
        if (service.getAllSchemas().size() > count) {
            appendNew();
        }
    }

    private synchronized void appendNew() {
        for (Schema schema : service.getAllSchemas()) {
            if (appended.contains(schema.getSchemaId())) {
                continue;
            }
            ValueCodec.Encoded id = ValueCodec.int64(schema.getSchemaId());
            ValueCodec.Encoded key = new ValueCodec.Encoded(KEY_CLASS, id.array(), id.from(), id.length());
            Data data = engine.getSerializationService().toData(schema);
            append.accept(EntryCodec.encode(key, ValueCodec.of(data), 0));
            appended.add(schema.getSchemaId());
        }
        count = appended.size();
    }

    /** Registers a schema from a log with the cluster. */
    public static void restore(NodeEngineImpl engine, Data schema) {
        engine.getNode().getSchemaService().put(engine.getSerializationService().toObject(schema));
    }
}
