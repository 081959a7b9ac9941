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
import kvwal.transactions.Transactions;

/**
 * Asks members the same, and asks again whoever has not answered for a while: a connection that breaks takes questions and answers
 * with it, and Hazelcast tells whoever waits for them only after two minutes, unless the member goes.
 *
 * What is asked may be done twice, and the first time may come last.
 */
public final class MemberQuery {
    private static final long PATIENCE_MILLIS = 1000;

    private MemberQuery() { }

    /** What all members answer that are not gone. */
    public static <T> List<T> ofAll(HazelcastInstance instance, Callable<T> question) throws ExecutionException, InterruptedException {
        IExecutorService executor = instance.getExecutorService(Transactions.BETWEEN_MEMBERS);
        return of(instance.getCluster().getMembers(), (member, answer) -> executor.submitToMember(question, member, new Into<>(answer)),
            member -> isThere(instance, member), PATIENCE_MILLIS);
    }

    public static boolean isThere(HazelcastInstance instance, Member member) {
        if (!instance.getLifecycleService().isRunning()) {
            throw new HazelcastInstanceNotActiveException();
        }
        return instance.getCluster().getMembers().contains(member);
    }

    /**
     * What these answer. `ask` sends the question to one of them and sees to it that the answer is completed, with null if that
     * one is gone; it is called again whenever so much time has passed without one, as long as `isThere` says so.
     */
    public static <M, T> List<T> of(Collection<M> members, BiConsumer<M, CompletableFuture<T>> ask, Predicate<M> isThere,
                                    long patienceMillis) throws ExecutionException, InterruptedException {
        Map<M, CompletableFuture<T>> answers = new LinkedHashMap<>();
        members.forEach(member -> answers.put(member, new CompletableFuture<>()));
        answers.forEach(ask);
        CompletableFuture<Void> all = CompletableFuture.allOf(answers.values().toArray(new CompletableFuture<?>[0]));
        while (!isDone(all, patienceMillis)) {
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
            return true; // whoever looks at the answers finds it
        }
        return true;
    }

    public static final class Into<T> implements ExecutionCallback<T> {
        private final CompletableFuture<T> answer;

        public Into(CompletableFuture<T> answer) {
            this.answer = answer;
        }

        @Override
        public void onResponse(T said) {
            answer.complete(said);
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
