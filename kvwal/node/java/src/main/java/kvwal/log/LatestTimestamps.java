package kvwal.log;

import com.hazelcast.cluster.Member;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.IExecutorService;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import kvwal.node.MemberQuery;
import kvwal.node.MemberTask;
import kvwal.node.TaskIds;

/** Latest timestamps of the other members. A member that takes keys over from living members stamps above these. */
public final class LatestTimestamps {
    /** An executor of its own: these tasks wait for a log, and those of TaskIds.BETWEEN_MEMBERS (leases) must not wait. */
    private static final String EXECUTOR = "kvwal.latest";
    /** For the log of the member that is asked. It is less than the time after which MemberQuery repeats a query. */
    private static final long LOG_MILLIS = 500;
    private static final long REPEAT_MILLIS = 1000;

    private LatestTimestamps() { }

    /**
     * Asks each other member for its LogContext.latest. Returns UUIDs and timestamps in turn. Left out are members that are gone,
     * members whose log is slow, and members of an earlier version, which do not know this task.
     */
    public static String[] ofOthers(HazelcastInstance instance) throws ExecutionException, InterruptedException {
        List<Member> others = new ArrayList<>(instance.getCluster().getMembers());
        others.removeIf(Member::localMember);
        IExecutorService executor = instance.getExecutorService(EXECUTOR);
        List<String[]> answers = MemberQuery.of(others, (member, answer) -> {
            CompletableFuture<Long> latest = new CompletableFuture<>();
            latest.whenComplete((timestamp, error) -> answer.complete(answerOf(member, error == null ? timestamp : null)));
            executor.submitToMember(new Read(), member, new MemberQuery.Into<>(latest));
        }, member -> MemberQuery.isThere(instance, member), REPEAT_MILLIS);
        return answers.stream().flatMap(Stream::of).toArray(String[]::new);
    }

    private static String[] answerOf(Member member, Long timestamp) {
        return timestamp == null || timestamp == LogContext.UNKNOWN ? null
            : new String[] {member.getUuid().toString(), Long.toString(timestamp)};
    }

    /** Task: answer with the latest timestamp of this member. */
    public static final class Read extends MemberTask implements Callable<Long> {
        @Override
        public Long call() throws InterruptedException {
            return LogContext.of(instance).latest(LOG_MILLIS);
        }

        @Override
        public int getClassId() {
            return TaskIds.READ_LATEST;
        }

        @Override
        public void writeData(ObjectDataOutput out) { }

        @Override
        public void readData(ObjectDataInput in) { }
    }
}
