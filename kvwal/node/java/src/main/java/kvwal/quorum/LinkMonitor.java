package kvwal.quorum;

import com.hazelcast.cluster.Member;
import com.hazelcast.cluster.impl.MemberImpl;
import com.hazelcast.config.Config;
import com.hazelcast.core.ExecutionCallback;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.internal.cluster.impl.ClusterHeartbeatManager;
import com.hazelcast.internal.cluster.impl.ClusterServiceImpl;
import com.hazelcast.logging.ILogger;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import kvwal.member.TaskFactory;
import kvwal.node.HazelcastInternals;
import kvwal.transactions.Transactions;

/**
 * Whom each member hears: by Hazelcast's heartbeats, which pass everything else that waits for a connection. Members ask each other,
 * so that each knows of links that are not its own. A question says whom the one that asks hears: one that hears nobody gets no
 * answer, and no question that it could answer.
 *
 * Times are counted while this process runs: a pause of its own is nobody's silence.
 */
public final class LinkMonitor {
    private static final String SERVICE = "kvwal.links";
    private static final int LOOK_MILLIS = 200;
    private static final int WORDS = 4;
    private static final long ASK_NANOS = TimeUnit.MILLISECONDS.toNanos(800);
    private static final long ANSWERED_NANOS = TimeUnit.SECONDS.toNanos(2);
    private static final long PAUSE_NANOS = TimeUnit.SECONDS.toNanos(1);

    /** The last heartbeat of whom, by Hazelcast's clock of the cluster, which may jump, and when it was seen to change. */
    private final Map<UUID, Heard> heard = new ConcurrentHashMap<>();
    /** What members answered. */
    private final Map<UUID, Told> told = new ConcurrentHashMap<>();
    /** What they said when they asked: how long that was under way nobody knows, so it counts where there is no answer. */
    private final Map<UUID, Told> said = new ConcurrentHashMap<>();
    private volatile HazelcastInstance instance;
    private ILogger logger;
    private ScheduledExecutorService timer;
    private long looked;
    private long asked;

    private record Heard(long stamp, long since) { }

    /** What a member answered, as `reports` has it, and when it was asked; or what it said by itself, and when that arrived. */
    private record Told(String words, long since) {
        List<String> aged(long now) {
            List<String> found = words.isEmpty() ? new ArrayList<>() : new ArrayList<>(List.of(words.split(" ")));
            for (int at = WORDS - 1; at < found.size(); at += WORDS) {
                found.set(at, Long.toString(Long.parseLong(found.get(at)) + TimeUnit.NANOSECONDS.toMillis(now - since)));
            }
            return found;
        }
    }

    /** For the configuration of the member whose links these are. */
    public void configure(Config config) {
        config.getUserContext().put(SERVICE, this);
    }

    /** Listen and ask from now on. */
    public void begin(HazelcastInstance here) {
        logger = here.getLoggingService().getLogger(LinkMonitor.class);
        timer = Executors.newSingleThreadScheduledExecutor(work -> {
            Thread thread = new Thread(work, "kvwal-links");
            thread.setDaemon(true);
            return thread;
        });
        looked = System.nanoTime();
        asked = looked - ASK_NANOS;
        instance = here;
        timer.scheduleWithFixedDelay(this::look, 0, LOOK_MILLIS, TimeUnit.MILLISECONDS);
    }

    /** Ask no more. */
    public void close() {
        if (timer != null) {
            timer.shutdownNow();
        }
    }

    private void look() {
        try {
            long now = System.nanoTime();
            long pause = now - looked > PAUSE_NANOS ? now - looked : 0;
            looked = now;
            ClusterHeartbeatManager heartbeats = cluster().getClusterHeartbeatManager();
            Set<UUID> there = new HashSet<>();
            boolean asks = now - asked >= ASK_NANOS;
            asked = asks ? now : asked;
            for (Member member : instance.getCluster().getMembers()) {
                if (!member.localMember()) {
                    there.add(member.getUuid());
                    note(member.getUuid(), heartbeats.getLastHeartbeatTime(member), now, pause);
                    if (asks) {
                        ask(member, now);
                    }
                }
            }
            heard.keySet().retainAll(there);
            told.keySet().retainAll(there);
            said.keySet().retainAll(there);
        } catch (HazelcastInstanceNotActiveException | RejectedExecutionException error) {
            // It is about to end, or between two clusters.
            told.clear();
            said.clear();
        } catch (RuntimeException error) {
            logger.warning("the other members could not be asked whom they hear; they are asked again", error);
        }
    }

    private void note(UUID member, long stamp, long now, long pause) {
        Heard before = heard.get(member);
        if (before == null || before.stamp() != stamp) {
            heard.put(member, new Heard(stamp, now));
        } else if (pause > 0) {
            heard.put(member, new Heard(stamp, before.since() + pause));
        }
    }

    private void ask(Member member, long now) {
        instance.getExecutorService(Transactions.BETWEEN_MEMBERS).submitToMember(new Hear(String.join(" ", own(now))), member, new ExecutionCallback<String>() {
            @Override
            public void onResponse(String words) {
                told.merge(member.getUuid(), new Told(words, now), (one, other) -> one.since() - other.since() > 0 ? one : other);
            }

            @Override
            public void onFailure(Throwable error) {
                // It is asked again, and counts as silent meanwhile.
            }
        });
    }

    private ClusterServiceImpl cluster() {
        return HazelcastInternals.node(instance).getClusterService();
    }

    /**
     * Four words each: who did not hear whom, for how many milliseconds, and how many milliseconds ago it said so. What others said
     * of themselves is passed on: who is cut off from one of them hears of it from the rest.
     */
    public String[] reports() {
        long now = System.nanoTime();
        List<String> words = new ArrayList<>(own(now));
        told().forEach((member, found) -> words.addAll(found.aged(now)));
        return words.toArray(new String[0]);
    }

    /** The last that each member answered, or said where it has not answered for a while. */
    private Map<UUID, Told> told() {
        long now = System.nanoTime();
        Map<UUID, Told> found = new HashMap<>(told);
        said.forEach((member, words) ->
            found.merge(member, words, (answer, other) -> now - answer.since() > ANSWERED_NANOS ? other : answer));
        return found;
    }

    private List<String> own(long now) {
        String here = instance.getCluster().getLocalMember().getUuid().toString();
        List<String> words = new ArrayList<>();
        heard.forEach((member, found) ->
            words.addAll(List.of(here, member.toString(), Long.toString(TimeUnit.NANOSECONDS.toMillis(now - found.since())), "0")));
        return words;
    }

    /** What `asking` hears, or nothing if that is not known, for what this member hears and was told. */
    private String answer(String asking) {
        long now = System.nanoTime();
        if (!asking.isEmpty()) {
            said.put(UUID.fromString(asking.substring(0, asking.indexOf(' '))), new Told(asking, now));
        }
        List<String> words = own(now);
        told().forEach((member, found) -> {
            List<String> all = found.aged(now);
            for (int at = 0; at < all.size(); at += WORDS) {
                if (all.get(at).equals(member.toString())) {
                    words.addAll(all.subList(at, at + WORDS));
                }
            }
        });
        return String.join(" ", words);
    }

    /** Take this member for gone, if this one leads the others. */
    public void giveUp(String number) {
        ClusterServiceImpl cluster = cluster();
        MemberImpl member = cluster.getMember(UUID.fromString(number));
        if (member != null && cluster.isMaster()) {
            cluster.suspectMember(member, "not all of the members that stay hear it", true);
        }
    }

    /** From a member that wants to know whom the one that is asked hears, and says whom it hears itself. */
    public static final class Hear extends TaskFactory.Task implements Callable<String> {
        private String own;

        public Hear() {
            this("");
        }

        public Hear(String own) {
            this.own = own;
        }

        @Override
        public String call() {
            LinkMonitor links = (LinkMonitor) instance.getUserContext().get(SERVICE);
            return links.instance == null ? "" : links.answer(own);
        }

        @Override
        public int getClassId() {
            return TaskFactory.HEAR;
        }

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            out.writeString(own);
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            own = in.readString();
        }
    }
}
