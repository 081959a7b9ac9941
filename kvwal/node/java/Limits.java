package kvwal.node;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.IExecutorService;
import com.hazelcast.core.MemberLeftException;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import com.hazelcast.spi.exception.TargetNotMemberException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

/**
 * What members tell each other of how far their clocks may run. Each keeps all that it was told, of members that are gone too.
 *
 * It goes from member to member, and through no map: a backup that has just joined may leave a map's change without an answer
 * for seconds, and writes wait for these.
 */
public final class Limits {
    private static final String SERVICE = "kvwal.limits";

    private final HazelcastInstance instance;
    private final Map<String, Told> table;

    /** The limit that was told under a key, and the text that went with it. */
    private record Told(long limit, String text) { }

    public Limits(HazelcastInstance instance) {
        this.instance = instance;
        this.table = table(instance);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Told> table(HazelcastInstance instance) {
        return (Map<String, Told>) instance.getUserContext().computeIfAbsent(SERVICE, name -> new ConcurrentHashMap<String, Told>());
    }

    private static void put(HazelcastInstance instance, String key, long limit, String text) {
        table(instance).merge(key, new Told(limit, text), (old, found) -> found.limit >= old.limit ? found : old);
    }

    /** Tell all; returns when each of them knows, or is gone. One key is told by one thread, and what it tells grows. */
    public void tell(String key, long limit, String text) throws ExecutionException, InterruptedException {
        put(instance, key, limit, text); // first: whoever asks this member before it is told, or instead of it, hears of it
        await(executor().submitToAllMembers(new Tell(key, limit, text)).values());
    }

    /** Learn what all others were told. */
    public void ask() throws ExecutionException, InterruptedException {
        for (String[] answer : await(executor().submitToAllMembers(new Ask()).values())) {
            for (int i = 0; i < answer.length; i += 3) {
                put(instance, answer[i], Long.parseLong(answer[i + 1]), answer[i + 2]);
            }
        }
    }

    /** What this member was told: keys and texts by turns. */
    public String[] told() {
        List<String> found = new ArrayList<>();
        table.forEach((key, told) -> {
            found.add(key);
            found.add(told.text);
        });
        return found.toArray(new String[0]);
    }

    private IExecutorService executor() {
        return instance.getExecutorService(Intents.BETWEEN_MEMBERS);
    }

    /** The answers of all that are not gone. */
    static <T> List<T> await(Collection<Future<T>> answers) throws ExecutionException, InterruptedException {
        List<T> found = new ArrayList<>();
        for (Future<T> answer : answers) {
            try {
                found.add(answer.get());
            } catch (ExecutionException error) {
                if (!(error.getCause() instanceof MemberLeftException || error.getCause() instanceof TargetNotMemberException)) {
                    throw error;
                }
            }
        }
        return found;
    }

    static final class Tell extends Tasks.Task implements Callable<Boolean> {
        private String key;
        private long limit;
        private String text;

        Tell() { }

        Tell(String key, long limit, String text) {
            this.key = key;
            this.limit = limit;
            this.text = text;
        }

        @Override
        public Boolean call() {
            put(instance, key, limit, text);
            return true;
        }

        @Override
        public int getClassId() {
            return Tasks.TELL;
        }

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            out.writeString(key);
            out.writeLong(limit);
            out.writeString(text);
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            key = in.readString();
            limit = in.readLong();
            text = in.readString();
        }
    }

    static final class Ask extends Tasks.Task implements Callable<String[]> {
        @Override
        public String[] call() {
            List<String> found = new ArrayList<>();
            table(instance).forEach((key, told) -> found.addAll(List.of(key, Long.toString(told.limit), told.text)));
            return found.toArray(new String[0]);
        }

        @Override
        public int getClassId() {
            return Tasks.ASK;
        }

        @Override
        public void writeData(ObjectDataOutput out) { }

        @Override
        public void readData(ObjectDataInput in) { }
    }
}
