package kvwal.transactions;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.spi.impl.NodeEngine;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import kvwal.codec.EntryCodec;
import kvwal.codec.ValueCodec;
import kvwal.node.MemoryLimit;
import kvwal.transactions.steps.ApplyChanges;

/** Changes of a transaction by their keys, in the order in which they are made. */
final class Changes {
    private final Map<Data, EntryCodec.Entry> changes = new LinkedHashMap<>();

    /** The changes in a block of entries whose expiry times are by a clock that this member's clock is `ahead` of. */
    Changes(byte[] block, long ahead) {
        EntryCodec.Reader reader = new EntryCodec.Reader(block);
        for (int i = 0; i < reader.count(); i++) {
            EntryCodec.Entry entry = reader.next();
            long expires = entry.expires() == 0 ? 0 : Math.max(1, entry.expires() + ahead);
            changes.put(key(entry), new EntryCodec.Entry(entry.keyClass(), entry.key(), entry.valueClass(), entry.value(),
                entry.deleted(), expires));
        }
    }

    private Changes() { }

    static Data key(EntryCodec.Entry entry) {
        return ValueCodec.toData(entry.keyClass(), entry.key());
    }

    Set<Data> keys() {
        return changes.keySet();
    }

    /** Takes the room in memory that the puts among the changes need; throws NotWritten if there is none. Deletes need none. */
    void takeRoom(MemoryLimit limit) {
        long entries = 0;
        long bytes = 0;
        for (EntryCodec.Entry entry : changes.values()) {
            if (!entry.deleted()) {
                entries++;
                bytes += entry.key().length + entry.value().length;
            }
        }
        limit.take(entries, bytes);
    }

    /** How many of these keys are changed. */
    int count(Collection<Data> keys) {
        return (int) keys.stream().filter(changes::containsKey).count();
    }

    /** The same changes, those of `last` after all others. */
    Changes ordered(Set<Data> last) {
        Changes ordered = new Changes();
        changes.forEach((key, entry) -> {
            if (!last.contains(key)) {
                ordered.changes.put(key, entry);
            }
        });
        changes.forEach(ordered.changes::putIfAbsent);
        return ordered;
    }

    /** The value of an intent: each change with the timestamp of its partition, which are partitions and timestamps in turn. */
    byte[] stamped(NodeEngine engine, long[] timestamps) {
        Map<Integer, Long> of = new HashMap<>();
        for (int i = 0; i < timestamps.length; i += 2) {
            of.put((int) timestamps[i], timestamps[i + 1]);
        }
        long[] stamps = changes.keySet().stream()
            .mapToLong(key -> of.get(engine.getPartitionService().getPartitionId(key))).toArray();
        return EntryCodec.block(List.copyOf(changes.values()), stamps);
    }

    /** The changes in two parts: all but the last `count`, and these. */
    List<Map<Data, ApplyChanges.Change>> parts(int count) {
        long now = System.currentTimeMillis();
        List<Map<Data, ApplyChanges.Change>> parts = List.of(new LinkedHashMap<>(), new LinkedHashMap<>());
        List<Data> keys = new ArrayList<>(changes.keySet());
        for (int i = 0; i < keys.size(); i++) {
            EntryCodec.Entry entry = changes.get(keys.get(i));
            Data value = entry.deleted() ? null : ValueCodec.toData(entry.valueClass(), entry.value());
            long left = entry.expires() == 0 ? 0 : Math.max(1, entry.expires() - now);
            parts.get(i < keys.size() - count ? 0 : 1).put(keys.get(i), new ApplyChanges.Change(value, left));
        }
        return parts;
    }
}
