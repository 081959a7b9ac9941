package kvwal.clock;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
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

    /**
     * Text published under a key, and when it came here, a time of System.nanoTime. Of two texts the one with the greater rank
     * counts: the bound, or a little more.
     */
    private record PublishedBound(long rank, String text, long since) { }

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
        table(instance).merge(key, new PublishedBound(rank, text, System.nanoTime()),
            (old, found) -> found.rank < old.rank || found.text.equals(old.text) ? old : found);
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
        MemberQuery.ofOthers(instance, new Publish(key, rank, text));
    }

    /** Fetches the bounds that the other members have. */
    public void refresh() throws ExecutionException, InterruptedException {
        for (String[] answer : MemberQuery.ofOthers(instance, new Read())) {
            for (int i = 0; i < answer.length; i += 3) {
                put(instance, answer[i], Long.parseLong(answer[i + 1]), answer[i + 2]);
            }
        }
    }

    /** The bounds that this member has, three lines for each: its key, the milliseconds since it came here, and its text. */
    public String published() {
        long now = System.nanoTime();
        StringJoiner lines = new StringJoiner("\n");
        table.forEach((key, bound) ->
            lines.add(key).add(Long.toString(TimeUnit.NANOSECONDS.toMillis(now - bound.since))).add(bound.text));
        return lines.toString();
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
