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
import kvwal.member.TaskFactory;
import kvwal.node.MemberQuery;
import kvwal.transactions.Transactions;

/**
 * How long a member may believe that the others count it in. It asks each of them again and again, and one that answered counts
 * as there for a fixed time from the moment at which it was asked.
 *
 * Each remembers whom it answered, and when. Whoever takes over the keys of a member that is gone first waits until that one has
 * been without an answer for as long: then it has stopped to serve them, however it was lost.
 */
public final class Leases {
    private static final String SERVICE = "kvwal.leases";
    private static final int ASK_MILLIS = 400;
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);
    /** Who is there is seen in different ways by two members, for a moment. */
    private static final long UNSURE = -1;
    private static final int AGAIN_MILLIS = 50;

    private final long length;
    /** When this member asked whom last, of those that answered. */
    private final Map<UUID, Long> held = new ConcurrentHashMap<>();
    /** When this member answered whom last. */
    private final Map<UUID, Long> given = new ConcurrentHashMap<>();
    /** When this member asked whom, of those that have not answered: an answer may be lost with its connection. */
    private final Map<UUID, Long> asked = new ConcurrentHashMap<>();
    private volatile HazelcastInstance instance;
    private ILogger logger;
    private ScheduledExecutorService timer;

    /** One answer is good for so many seconds. */
    public Leases(int seconds) {
        this.length = TimeUnit.SECONDS.toNanos(seconds);
    }

    /** For the configuration of the member whose leases these are. */
    public void configure(Config config) {
        config.getUserContext().put(SERVICE, this);
    }

    static Leases of(HazelcastInstance instance) {
        return (Leases) instance.getUserContext().get(SERVICE);
    }

    /** Ask from now on. A member that never begins is never waited for. */
    public void begin(HazelcastInstance here) {
        instance = here;
        logger = here.getLoggingService().getLogger(Leases.class);
        timer = Executors.newSingleThreadScheduledExecutor(work -> {
            Thread thread = new Thread(work, "kvwal-leases");
            thread.setDaemon(true);
            return thread;
        });
        timer.scheduleWithFixedDelay(this::ask, 0, ASK_MILLIS, TimeUnit.MILLISECONDS);
    }

    /** Ask no more. */
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
            // It is about to end, or between two clusters: whatever it was given ends by itself.
            asked.clear();
        } catch (RuntimeException error) {
            asked.clear();
            logger.warning("the other members could not be asked whether they count this one in; they are asked again", error);
        }
    }

    private void ask(UUID own, Member member) {
        long now = System.nanoTime();
        Long before = asked.get(member.getUuid());
        if (before == null || now - before > PATIENCE_NANOS) {
            asked.put(member.getUuid(), now);
            executor(instance).submitToMember(new Renew(own), member, new Answer(member.getUuid(), now));
        }
    }

    private static IExecutorService executor(HazelcastInstance instance) {
        return instance.getExecutorService(Transactions.BETWEEN_MEMBERS);
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
        // Asked again: whoever sees that it went looks up what was given afterwards.
        return isThere(member);
    }

    private boolean isThere(UUID member) {
        return instance != null && instance.getCluster().getMembers().stream().anyMatch(other -> other.getUuid().equals(member));
    }

    private long left(Set<UUID> there) {
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

    /** Milliseconds after which this is to be asked again; 0 when no member that is gone can believe any more that it is there. */
    public long left() throws ExecutionException, InterruptedException {
        Set<UUID> there = new HashSet<>();
        instance.getCluster().getMembers().forEach(member -> there.add(member.getUuid()));
        long most = 0;
        for (long answer : MemberQuery.ofAll(instance, new Left(there))) {
            most = Math.max(most, answer == UNSURE ? AGAIN_MILLIS : answer);
        }
        return most;
    }

    /** Whether no member that is gone can believe any more that it is there; false if that cannot be said now. */
    public boolean isOver() {
        if (instance == null) {
            return false;
        }
        try {
            return left() == 0;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return false;
        } catch (ExecutionException | HazelcastInstanceNotActiveException | RejectedExecutionException error) {
            return false;
        }
    }

    /** From a member that wants to be counted in. */
    public static final class Renew extends TaskFactory.Task implements Callable<Boolean> {
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
            return TaskFactory.RENEW;
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

    /** For how long anybody else than these may believe that the member that is asked counts it in. */
    public static final class Left extends TaskFactory.Task implements Callable<Long> {
        private Set<UUID> there;

        public Left() { }

        public Left(Set<UUID> there) {
            this.there = there;
        }

        @Override
        public Long call() {
            return of(instance).left(there);
        }

        @Override
        public int getClassId() {
            return TaskFactory.LEFT;
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
