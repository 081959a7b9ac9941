package kvwal.node;

import com.hazelcast.cluster.Member;
import com.hazelcast.core.ExecutionCallback;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.core.IExecutorService;
import com.hazelcast.core.MemberLeftException;
import com.hazelcast.spi.exception.TargetNotMemberException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiConsumer;
import java.util.function.Predicate;

/**
 * Query to several members, repeated until each has answered or is gone.
 *
 * A connection that breaks loses queries and answers, and Hazelcast reports that only after two minutes unless the member goes.
 * So a member may run the same query twice, and the first run may end last.
 */
public final class MemberQuery {
    private static final long ASK_AGAIN_MILLIS = 1000;

    private MemberQuery() { }

    /** Runs the task on every member; the answers of those that are not gone. */
    public static <T> List<T> ofAll(HazelcastInstance instance, Callable<T> task)
            throws ExecutionException, InterruptedException {
        return ofAll(instance, instance.getCluster().getMembers(), task, null);
    }

    /** Runs the task on every other member; the answers of those that are not gone. */
    public static <T> List<T> ofOthers(HazelcastInstance instance, Callable<T> task)
            throws ExecutionException, InterruptedException {
        List<Member> others = instance.getCluster().getMembers().stream().filter(member -> !member.localMember()).toList();
        return ofAll(instance, others, task, null);
    }

    /** Runs the task on these members; the answers of those that are not gone. `ofNull` stands for the answer null. */
    public static <T> List<T> ofAll(HazelcastInstance instance, Collection<Member> members, Callable<T> task, T ofNull)
            throws ExecutionException, InterruptedException {
        IExecutorService executor = instance.getExecutorService(TaskIds.BETWEEN_MEMBERS);
        return of(members, (member, answer) -> executor.submitToMember(task, member, new Into<>(answer, ofNull)),
            member -> isThere(instance, member), ASK_AGAIN_MILLIS);
    }

    public static boolean isThere(HazelcastInstance instance, Member member) {
        if (!instance.getLifecycleService().isRunning()) {
            throw new HazelcastInstanceNotActiveException();
        }
        return instance.getCluster().getMembers().contains(member);
    }

    /**
     * Asks each of `members`; the answers that are not null. `ask` sends the query to one of them and completes its answer, with
     * null if the member is gone. `ask` runs again after each `askAgainMillis` without an answer, as long as `isThere` says so.
     */
    public static <M, T> List<T> of(Collection<M> members, BiConsumer<M, CompletableFuture<T>> ask, Predicate<M> isThere,
                                    long askAgainMillis) throws ExecutionException, InterruptedException {
        Map<M, CompletableFuture<T>> answers = new LinkedHashMap<>();
        members.forEach(member -> answers.put(member, new CompletableFuture<>()));
        answers.forEach(ask);
        CompletableFuture<Void> all = CompletableFuture.allOf(answers.values().toArray(new CompletableFuture<?>[0]));
        while (!isDone(all, askAgainMillis)) {
            answers.forEach((member, answer) -> {
                if (answer.isDone()) {
                    return;
                }
                if (isThere.test(member)) {
                    ask.accept(member, answer);
                } else {
                    answer.complete(null);
                }
            });
        }
        List<T> found = new ArrayList<>();
        for (CompletableFuture<T> answer : answers.values()) {
            T said = answer.get();
            if (said != null) {
                found.add(said);
            }
        }
        return found;
    }

    private static boolean isDone(CompletableFuture<Void> all, long millis) throws InterruptedException {
        try {
            all.get(millis, TimeUnit.MILLISECONDS);
        } catch (TimeoutException error) {
            return false;
        } catch (ExecutionException error) {
            return true; // thrown when the answers are read
        }
        return true;
    }

    /** Callback of one task: completes an answer, with null if the member is gone. */
    public static final class Into<T> implements ExecutionCallback<T> {
        private final CompletableFuture<T> answer;
        private final T ofNull;

        public Into(CompletableFuture<T> answer) {
            this(answer, null);
        }

        /** `ofNull` stands for the null of a member that has answered. */
        public Into(CompletableFuture<T> answer, T ofNull) {
            this.answer = answer;
            this.ofNull = ofNull;
        }

        @Override
        public void onResponse(T said) {
            answer.complete(said == null ? ofNull : said);
        }

        @Override
        public void onFailure(Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            if (cause instanceof MemberLeftException || cause instanceof TargetNotMemberException) {
                answer.complete(null);
            } else {
                answer.completeExceptionally(cause);
            }
        }
    }
}
