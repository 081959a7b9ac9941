package kvwal.transactions;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.internal.serialization.Data;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import kvwal.codec.Entries;
import kvwal.codec.Words;
import kvwal.log.LogStore;
import kvwal.log.Mailboxes;
import kvwal.node.Gate;

/** Where intents are logged: each in the log of the map that it is of, as an entry of the structure "intent". */
public final class IntentStore extends LogStore {
    private final Map<String, Mailboxes.Mailbox> boxes = new ConcurrentHashMap<>();

    public IntentStore(Mailboxes mailboxes, Gate gate) {
        super(mailboxes, gate, Intents.MAP);
    }

    /** The first intent that this member owns, or is the backup of, makes it look after those of members that go. */
    @Override
    public void init(HazelcastInstance instance, Properties properties, String map) {
        super.init(instance, properties, map);
        Intents.of(instance).watch(instance);
    }

    @Override
    public void write(List<Change> changes, long expires) {
        gate.check();
        for (Change change : changes) {
            Words.Word value = change.value() == null ? null : Words.of(change.value());
            mailboxes.send(box(change.key()), List.of(Entries.encode(word(change.key()), value, expires)));
        }
    }

    @Override
    public Words.Word word(Data key) {
        Words.Word found = Words.of(key);
        return new Words.Word(Intents.KEY_CLASS, found.array(), found.from(), found.length());
    }

    @Override
    public List<Mailboxes.Letter> post(Data key, List<byte[]> entries, Thread writer) {
        gate.check();
        return mailboxes.post(box(key), entries, writer);
    }

    private Mailboxes.Mailbox box(Data key) {
        Words.Word found = Words.of(key);
        String map = Intents.map(new String(found.array(), found.from(), found.length(), StandardCharsets.UTF_8));
        return boxes.computeIfAbsent(map, mailboxes::open);
    }

    /** Nobody destroys them. */
    @Override
    public void destroy() { }
}
