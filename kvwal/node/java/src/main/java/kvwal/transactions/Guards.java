package kvwal.transactions;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.serialization.Data;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import kvwal.codec.EntryCodec;
import kvwal.codec.ValueCodec;
import kvwal.node.HazelcastInternals;

/**
 * Guards of a conditional transaction: the keys whose values it depends on. They are locked as the keys that it changes are, from
 * before the values are compared until every change is in memory. So no other change of a guard comes in between.
 */
final class Guards {
    private final HazelcastInstance instance;
    private final String map;
    private final Map<Data, EntryCodec.Entry> conditions = new LinkedHashMap<>();

    /** `block` is a block of entries: each has the value that its key is to have. A delete stands for an absent key. */
    Guards(HazelcastInstance instance, String map, byte[] block) {
        this.instance = instance;
        this.map = map;
        EntryCodec.Reader reader = new EntryCodec.Reader(block);
        for (int i = 0; i < reader.count(); i++) {
            EntryCodec.Entry entry = reader.next();
            conditions.put(Changes.key(entry), entry);
        }
    }

    Set<Data> keys() {
        return conditions.keySet();
    }

    /** Whether each guard has its value now. */
    boolean hold() {
        return conditions.entrySet().stream().allMatch(condition -> holds(condition.getKey(), condition.getValue()));
    }

    private boolean holds(Data key, EntryCodec.Entry condition) {
        ValueCodec.Encoded found = HazelcastInternals.held(instance, map, key);
        if (found == null || condition.deleted()) {
            return found == null && condition.deleted();
        }
        return ValueCodec.toData(condition.valueClass(), condition.value())
            .equals(ValueCodec.toData(found.name(), found.array(), found.from(), found.length()));
    }
}
