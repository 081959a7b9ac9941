package kvwal.clock;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import kvwal.member.TaskFactory;
import kvwal.node.MemberQuery;

/**
 * What members tell each other of how far their clocks may run. Each keeps all that it was told, of members that are gone too.
 *
 * It goes from member to member, and through no map: a backup that has just joined may leave a map's change without an answer
 * for seconds, and writes wait for these.
 */
public final class ClockBounds {
    private static final String SERVICE = "kvwal.limits";

    private final HazelcastInstance instance;
    private final Map<String, Told> table;

    /** The text that was told under a key, and by what it counts over others: its limit, or a little more. */
    private record Told(long rank, String text) { }

    public ClockBounds(HazelcastInstance instance) {
        this.instance = instance;
        this.table = table(instance);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Told> table(HazelcastInstance instance) {
        return (Map<String, Told>) instance.getUserContext().computeIfAbsent(SERVICE, name -> new ConcurrentHashMap<String, Told>());
    }

    private static void put(HazelcastInstance instance, String key, long rank, String text) {
        table(instance).merge(key, new Told(rank, text), (old, found) -> found.rank >= old.rank ? found : old);
    }

    /** Tell all; returns when each of them knows, or is gone. One key is told by one thread, and what it tells grows. */
    public void tell(String key, long limit, String text) throws ExecutionException, InterruptedException {
        Told last = table.get(key);
        // More each time: what is told twice may come late, and must not count over what was told since.
        long rank = last == null ? limit : Math.max(limit, last.rank + 1);
        put(instance, key, rank, text); // first: whoever asks this member before it is told, or instead of it, hears of it
        MemberQuery.ofAll(instance, new Tell(key, rank, text));
    }

    /** Learn what all others were told. */
    public void ask() throws ExecutionException, InterruptedException {
        for (String[] answer : MemberQuery.ofAll(instance, new Ask())) {
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

    public static final class Tell extends TaskFactory.Task implements Callable<Boolean> {
        private String key;
        private long rank;
        private String text;

        public Tell() { }

        public Tell(String key, long rank, String text) {
            this.key = key;
            this.rank = rank;
            this.text = text;
        }

        @Override
        public Boolean call() {
            put(instance, key, rank, text);
            return true;
        }

        @Override
        public int getClassId() {
            return TaskFactory.TELL;
        }

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            out.writeString(key);
            out.writeLong(rank);
            out.writeString(text);
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            key = in.readString();
            rank = in.readLong();
            text = in.readString();
        }
    }

    public static final class Ask extends TaskFactory.Task implements Callable<String[]> {
        @Override
        public String[] call() {
            List<String> found = new ArrayList<>();
            table(instance).forEach((key, told) -> found.addAll(List.of(key, Long.toString(told.rank), told.text)));
            return found.toArray(new String[0]);
        }

        @Override
        public int getClassId() {
            return TaskFactory.ASK;
        }

        @Override
        public void writeData(ObjectDataOutput out) { }

        @Override
        public void readData(ObjectDataInput in) { }
    }
}
