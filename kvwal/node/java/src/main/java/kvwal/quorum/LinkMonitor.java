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
import kvwal.node.DaemonThreads;
import kvwal.node.HazelcastInternals;
import kvwal.node.MemberTask;
import kvwal.node.TaskIds;

/**
 * Monitor of the links between members: when each member last had a heartbeat of each other one. Hazelcast's heartbeats overtake
 * all else that waits for a connection. Members exchange what they hear, so each knows links that are not its own. A question
 * carries the links of the member that asks: a member that hears nobody gets no answer, and no question to answer.
 *
 * Times count only while this process runs, so a pause of this process is not taken for silence of the others.
 */
public final class LinkMonitor {
    private static final String SERVICE = "kvwal.links";
    private static final int LOOK_MILLIS = 200;
    private static final int WORDS = 4;
    private static final long ASK_NANOS = TimeUnit.MILLISECONDS.toNanos(800);
    private static final long ANSWERED_NANOS = TimeUnit.SECONDS.toNanos(2);
    private static final long PAUSE_NANOS = TimeUnit.SECONDS.toNanos(1);

    /** Last heartbeat of each member: its stamp by Hazelcast's cluster clock, which may jump, and when the stamp changed. */
    private final Map<UUID, Heartbeat> heard = new ConcurrentHashMap<>();
    /** Answers of members. */
    private final Map<UUID, Report> answers = new ConcurrentHashMap<>();
    /** Links that members sent with their questions. How long a question was under way is unknown, so an answer is better. */
    private final Map<UUID, Report> announced = new ConcurrentHashMap<>();
    private volatile HazelcastInstance instance;
    private ILogger logger;
    private ScheduledExecutorService timer;
    private long looked;
    private long asked;

    private record Heartbeat(long stamp, long since) { }

    /** Links of a member in the form of `reports`, and the time of the question, or of the arrival of its announcement. */
    private record Report(String words, long since) {
        List<String> aged(long now) {
            List<String> found = words.isEmpty() ? new ArrayList<>() : new ArrayList<>(List.of(words.split(" ")));
            for (int at = WORDS - 1; at < found.size(); at += WORDS) {
                found.set(at, Long.toString(Long.parseLong(found.get(at)) + TimeUnit.NANOSECONDS.toMillis(now - since)));
            }
            return found;
        }
    }

    /** Makes this the monitor of the member with this configuration. */
    public void configure(Config config) {
        config.getUserContext().put(SERVICE, this);
    }

    /** Listens and asks from now on. */
    public void begin(HazelcastInstance here) {
        logger = here.getLoggingService().getLogger(LinkMonitor.class);
        timer = Executors.newSingleThreadScheduledExecutor(DaemonThreads.named("kvwal-links"));
        looked = System.nanoTime();
        asked = looked - ASK_NANOS;
        instance = here;
        timer.scheduleWithFixedDelay(this::look, 0, LOOK_MILLIS, TimeUnit.MILLISECONDS);
    }

    /** Stops asking. */
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
            answers.keySet().retainAll(there);
            announced.keySet().retainAll(there);
        } catch (HazelcastInstanceNotActiveException | RejectedExecutionException error) {
            // The member is ending, or between two clusters.
            answers.clear();
            announced.clear();
        } catch (RuntimeException error) {
            logger.warning("the other members could not be asked whom they hear; they are asked again", error);
        }
    }

    private void note(UUID member, long stamp, long now, long pause) {
        Heartbeat before = heard.get(member);
        if (before == null || before.stamp() != stamp) {
            heard.put(member, new Heartbeat(stamp, now));
        } else if (pause > 0) {
            heard.put(member, new Heartbeat(stamp, before.since() + pause));
        }
    }

    private void ask(Member member, long now) {
        ReportLinks task = new ReportLinks(String.join(" ", own(now)));
        instance.getExecutorService(TaskIds.BETWEEN_MEMBERS).submitToMember(task, member, new ExecutionCallback<String>() {
            @Override
            public void onResponse(String words) {
                answers.merge(member.getUuid(), new Report(words, now),
                    (one, other) -> one.since() - other.since() > 0 ? one : other);
            }

            @Override
            public void onFailure(Throwable error) {
                // The member is asked again, and counts as silent meanwhile.
            }
        });
    }

    private ClusterServiceImpl cluster() {
        return HazelcastInternals.node(instance).getClusterService();
    }

    /**
     * Four words for each link, all in one text: the member that hears, the member that it should hear, the milliseconds of
     * silence, and the age of this report in milliseconds. Reports of others are passed on, so a member that is cut off from one
     * of them learns them from the rest.
     */
    public String reports() {
        long now = System.nanoTime();
        List<String> words = new ArrayList<>(own(now));
        latest().forEach((member, found) -> words.addAll(found.aged(now)));
        return String.join(" ", words);
    }

    /** The last answer of each member, or its announcement if it has not answered for a while. */
    private Map<UUID, Report> latest() {
        long now = System.nanoTime();
        Map<UUID, Report> found = new HashMap<>(answers);
        announced.forEach((member, words) ->
            found.merge(member, words, (answer, other) -> now - answer.since() > ANSWERED_NANOS ? other : answer));
        return found;
    }

    private List<String> own(long now) {
        String here = instance.getCluster().getLocalMember().getUuid().toString();
        List<String> words = new ArrayList<>();
        heard.forEach((member, found) ->
            words.addAll(List.of(here, member.toString(), millis(now - found.since()), "0")));
        return words;
    }

    private static String millis(long nanos) {
        return Long.toString(TimeUnit.NANOSECONDS.toMillis(nanos));
    }

    /** What this member hears and what it knows about `asking`, which sent its own links, or nothing if it knows none. */
    private String answer(String asking) {
        long now = System.nanoTime();
        if (!asking.isEmpty()) {
            announced.put(UUID.fromString(asking.substring(0, asking.indexOf(' '))), new Report(asking, now));
        }
        List<String> words = own(now);
        latest().forEach((member, found) -> {
            List<String> all = found.aged(now);
            for (int at = 0; at < all.size(); at += WORDS) {
                if (all.get(at).equals(member.toString())) {
                    words.addAll(all.subList(at, at + WORDS));
                }
            }
        });
        return String.join(" ", words);
    }

    /** Removes a member from the cluster, if this member is the master. */
    public void giveUp(String number) {
        ClusterServiceImpl cluster = cluster();
        MemberImpl member = cluster.getMember(UUID.fromString(number));
        if (member != null && cluster.isMaster()) {
            cluster.suspectMember(member, "not all of the members that stay hear it", true);
        }
    }

    /** Task: answer with the links that the receiver knows. It carries the links of the sender. */
    public static final class ReportLinks extends MemberTask implements Callable<String> {
        private String own;

        public ReportLinks() {
            this("");
        }

        public ReportLinks(String own) {
            this.own = own;
        }

        @Override
        public String call() {
            LinkMonitor links = (LinkMonitor) instance.getUserContext().get(SERVICE);
            return links.instance == null ? "" : links.answer(own);
        }

        @Override
        public int getClassId() {
            return TaskIds.REPORT_LINKS;
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
