package kvwal.codec;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.serialization.impl.compact.Schema;
import com.hazelcast.internal.serialization.impl.compact.schema.MemberSchemaService;
import com.hazelcast.spi.impl.NodeEngineImpl;
import java.util.HashSet;
import java.util.Set;
import java.util.function.Consumer;

/**
 * Compact values carry the number of their schema only, and the cluster has the schemas in its memory. So each log gets those
 * that its entries may need, before the entries: as entries of the structure "schema".
 *
 * Which schemas a value needs, those inside it included, cannot be seen from outside. A client gives the cluster all of
 * them before it sends the value: so whatever the member knows and this log does not have yet is written.
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

    /** Gives a schema from a log back to the cluster. */
    public static void restore(NodeEngineImpl engine, Data schema) {
        engine.getNode().getSchemaService().put(engine.getSerializationService().toObject(schema));
    }
}
