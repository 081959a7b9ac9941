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
import kvwal.node.MemberQuery;
import kvwal.node.MemberTask;
import kvwal.node.TaskIds;

/**
 * Clock bounds that members publish to each other: how far each member's clock may run. Each member keeps all that it received,
 * of members that are gone too.
 *
 * Bounds travel as tasks, not through a map: the backup of a map that has just joined may leave a change unanswered for seconds,
 * and writes wait for bounds.
 */
public final class ClockBounds {
    private static final String SERVICE = "kvwal.limits";

    private final HazelcastInstance instance;
    private final Map<String, PublishedBound> table;

    /** Text published under a key. Of two texts the one with the greater rank counts: the bound, or a little more. */
    private record PublishedBound(long rank, String text) { }

    public ClockBounds(HazelcastInstance instance) {
        this.instance = instance;
        this.table = table(instance);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, PublishedBound> table(HazelcastInstance instance) {
        return (Map<String, PublishedBound>) instance.getUserContext()
            .computeIfAbsent(SERVICE, name -> new ConcurrentHashMap<String, PublishedBound>());
    }

    private static void put(HazelcastInstance instance, String key, long rank, String text) {
        table(instance).merge(key, new PublishedBound(rank, text), (old, found) -> found.rank >= old.rank ? found : old);
    }

    /**
     * Publishes a bound; returns when every member has it or is gone. Each key has one publishing thread, and its bounds grow.
     */
    public void publish(String key, long limit, String text) throws ExecutionException, InterruptedException {
        PublishedBound last = table.get(key);
        // A greater rank each time: a repeated task may arrive late, and must not override a newer bound.
        long rank = last == null ? limit : Math.max(limit, last.rank + 1);
        // Here first: a member that reads the bounds of this one meanwhile gets the new one.
        put(instance, key, rank, text);
        MemberQuery.ofAll(instance, new Publish(key, rank, text));
    }

    /** Fetches the bounds that the other members have. */
    public void refresh() throws ExecutionException, InterruptedException {
        for (String[] answer : MemberQuery.ofAll(instance, new Read())) {
            for (int i = 0; i < answer.length; i += 3) {
                put(instance, answer[i], Long.parseLong(answer[i + 1]), answer[i + 2]);
            }
        }
    }

    /** The bounds that this member has: keys and texts in turn. */
    public String[] published() {
        List<String> found = new ArrayList<>();
        table.forEach((key, bound) -> {
            found.add(key);
            found.add(bound.text);
        });
        return found.toArray(new String[0]);
    }

    /** Task: keep this bound. */
    public static final class Publish extends MemberTask implements Callable<Boolean> {
        private String key;
        private long rank;
        private String text;

        public Publish() { }

        public Publish(String key, long rank, String text) {
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
            return TaskIds.PUBLISH_BOUND;
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

    /** Task: answer with all bounds. */
    public static final class Read extends MemberTask implements Callable<String[]> {
        @Override
        public String[] call() {
            List<String> found = new ArrayList<>();
            table(instance).forEach((key, bound) -> found.addAll(List.of(key, Long.toString(bound.rank), bound.text)));
            return found.toArray(new String[0]);
        }

        @Override
        public int getClassId() {
            return TaskIds.READ_BOUNDS;
        }

        @Override
        public void writeData(ObjectDataOutput out) { }

        @Override
        public void readData(ObjectDataInput in) { }
    }
}
