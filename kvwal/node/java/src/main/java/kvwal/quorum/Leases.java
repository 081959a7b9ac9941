package kvwal.quorum;

import com.hazelcast.cluster.Member;
import com.hazelcast.config.Config;
import com.hazelcast.core.ExecutionCallback;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.core.IExecutorService;
import com.hazelcast.internal.util.UUIDSerializationUtil;
import com.hazelcast.logging.ILogger;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import kvwal.node.DaemonThreads;
import kvwal.node.MemberQuery;
import kvwal.node.MemberTask;
import kvwal.node.TaskIds;

/**
 * Leases between members: how long a member may believe that the others count it as present. It asks each of them again and
 * again, and a member that answered counts as present for a fixed time from the moment of the question.
 *
 * Each member remembers to whom it gave a lease, and when. Before a member takes over the keys of one that left, it waits until
 * the last lease of that one has ended: by then the lost member has stopped serving them, however it was lost.
 */
public final class Leases {
    private static final String SERVICE = "kvwal.leases";
    private static final int ASK_MILLIS = 400;
    private static final long ASK_AGAIN_NANOS = TimeUnit.SECONDS.toNanos(1);
    /** Two members may disagree for a moment about who is present. */
    private static final long UNSURE = -1;
    private static final int AGAIN_MILLIS = 50;

    private final long length;
    /** Leases that this member has: by the member that gave it, the time of the question. */
    private final Map<UUID, Long> held = new ConcurrentHashMap<>();
    /** Leases that this member gave: by the member that has it, the time of the answer. */
    private final Map<UUID, Long> given = new ConcurrentHashMap<>();
    /** Questions without an answer yet, by member; an answer may be lost with its connection. */
    private final Map<UUID, Long> asked = new ConcurrentHashMap<>();
    private volatile HazelcastInstance instance;
    private ILogger logger;
    private ScheduledExecutorService timer;

    /** `seconds`: how long one answer is good for. */
    public Leases(int seconds) {
        this.length = TimeUnit.SECONDS.toNanos(seconds);
    }

    /** Makes these the leases of the member with this configuration. */
    public void configure(Config config) {
        config.getUserContext().put(SERVICE, this);
    }

    static Leases of(HazelcastInstance instance) {
        return (Leases) instance.getUserContext().get(SERVICE);
    }

    /** Asks the others from now on. A member that never begins is never waited for. */
    public void begin(HazelcastInstance here) {
        instance = here;
        logger = here.getLoggingService().getLogger(Leases.class);
        timer = Executors.newSingleThreadScheduledExecutor(DaemonThreads.named("kvwal-leases"));
        timer.scheduleWithFixedDelay(this::ask, 0, ASK_MILLIS, TimeUnit.MILLISECONDS);
    }

    /** Stops asking. */
    public void close() {
        if (timer != null) {
            timer.shutdownNow();
        }
    }

    boolean isHeld(Member member) {
        Long since = held.get(member.getUuid());
        return since != null && System.nanoTime() - since < length;
    }

    private void ask() {
        try {
            UUID own = instance.getCluster().getLocalMember().getUuid();
            Set<UUID> there = new HashSet<>();
            for (Member member : instance.getCluster().getMembers()) {
                there.add(member.getUuid());
                if (!member.localMember()) {
                    ask(own, member);
                }
            }
            held.keySet().retainAll(there);
            asked.keySet().retainAll(there);
        } catch (HazelcastInstanceNotActiveException | RejectedExecutionException error) {
            // The member is ending, or between two clusters: its leases end by themselves.
            asked.clear();
        } catch (RuntimeException error) {
            asked.clear();
            logger.warning("the other members could not be asked whether they count this one in; they are asked again", error);
        }
    }

    private void ask(UUID own, Member member) {
        long now = System.nanoTime();
        Long before = asked.get(member.getUuid());
        if (before == null || now - before > ASK_AGAIN_NANOS) {
            asked.put(member.getUuid(), now);
            executor(instance).submitToMember(new Renew(own), member, new Answer(member.getUuid(), now));
        }
    }

    private static IExecutorService executor(HazelcastInstance instance) {
        return instance.getExecutorService(TaskIds.BETWEEN_MEMBERS);
    }

    private final class Answer implements ExecutionCallback<Boolean> {
        private final UUID member;
        private final long since;

        Answer(UUID member, long since) {
            this.member = member;
            this.since = since;
        }

        @Override
        public void onResponse(Boolean given) {
            if (given) {
                held.merge(member, since, (one, other) -> one - other > 0 ? one : other);
            }
            asked.remove(member, since);
        }

        @Override
        public void onFailure(Throwable error) {
            asked.remove(member, since);
        }
    }

    private boolean give(UUID member) {
        if (!isThere(member)) {
            return false;
        }
        given.put(member, System.nanoTime());
        // Checked again: a member that sees it leave looks up its leases afterwards.
        return isThere(member);
    }

    private boolean isThere(UUID member) {
        return instance != null && instance.getCluster().getMembers().stream().anyMatch(other -> other.getUuid().equals(member));
    }

    private long remaining(Set<UUID> there) {
        long most = 0;
        for (Map.Entry<UUID, Long> entry : given.entrySet()) {
            long rest = entry.getValue() + length - System.nanoTime();
            if (rest <= 0) {
                given.remove(entry.getKey(), entry.getValue());
            } else if (!there.contains(entry.getKey())) {
                if (isThere(entry.getKey())) {
                    return UNSURE;
                }
                most = Math.max(most, rest);
            }
        }
        return TimeUnit.NANOSECONDS.toMillis(most + TimeUnit.MILLISECONDS.toNanos(1) - 1);
    }

    /** Milliseconds after which to ask again; 0 when no member that left has a lease. */
    public long remaining() throws ExecutionException, InterruptedException {
        Set<UUID> there = new HashSet<>();
        instance.getCluster().getMembers().forEach(member -> there.add(member.getUuid()));
        long most = 0;
        for (long answer : MemberQuery.ofAll(instance, new Remaining(there))) {
            most = Math.max(most, answer == UNSURE ? AGAIN_MILLIS : answer);
        }
        return most;
    }

    /** Whether no member that left has a lease; false if that is unknown now. */
    public boolean isOver() {
        if (instance == null) {
            return false;
        }
        try {
            return remaining() == 0;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return false;
        } catch (ExecutionException | HazelcastInstanceNotActiveException | RejectedExecutionException error) {
            return false;
        }
    }

    /** Task: give the sender a lease. */
    public static final class Renew extends MemberTask implements Callable<Boolean> {
        private UUID member;

        public Renew() { }

        public Renew(UUID member) {
            this.member = member;
        }

        @Override
        public Boolean call() {
            return of(instance).give(member);
        }

        @Override
        public int getClassId() {
            return TaskIds.RENEW_LEASE;
        }

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            UUIDSerializationUtil.writeUUID(out, member);
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            member = UUIDSerializationUtil.readUUID(in);
        }
    }

    /** Task: how long a lease that this member gave still lasts, of a member that is not one of these. */
    public static final class Remaining extends MemberTask implements Callable<Long> {
        private Set<UUID> there;

        public Remaining() { }

        public Remaining(Set<UUID> there) {
            this.there = there;
        }

        @Override
        public Long call() {
            return of(instance).remaining(there);
        }

        @Override
        public int getClassId() {
            return TaskIds.REMAINING_LEASE;
        }

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            out.writeInt(there.size());
            for (UUID member : there) {
                UUIDSerializationUtil.writeUUID(out, member);
            }
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            there = new HashSet<>();
            for (int count = in.readInt(); count > 0; count--) {
                there.add(UUIDSerializationUtil.readUUID(in));
            }
        }
    }
}
