package kvwal.transactions.steps;

import com.hazelcast.cluster.Address;
import com.hazelcast.core.MemberLeftException;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.util.ConcurrencyUtil;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.spi.exception.RetryableException;
import com.hazelcast.spi.impl.NodeEngine;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/**
 * Sends tasks of a transaction to the owners of their keys, and gathers the answers: of each partition its number and what the
 * task answered there, 0 if nothing. Any task may run twice.
 */
public final class OwnerSteps {
    private OwnerSteps() { }

    /** Runs a task; returns when all partitions have answered. Throws what one of them threw. */
    public static long[] run(NodeEngine engine, TransactionTask task) {
        try {
            return begin(engine, task).join();
        } catch (CompletionException error) {
            throw error.getCause() instanceof RuntimeException known ? known : error;
        }
    }

    /** Runs a task by one message to each member. The error is that of one of the partitions, when all have answered. */
    public static CompletableFuture<long[]> begin(NodeEngine engine, TransactionTask task) {
        Map<Address, List<Data>> byOwner = new HashMap<>();
        List<Data> mine = new ArrayList<>();
        PartitionSteps.byPartition(engine, task.keys()).forEach((partition, keys) -> {
            Address owner = engine.getPartitionService().getPartition(partition, false).getOwnerOrNull();
            boolean isHere = owner == null || owner.equals(engine.getThisAddress());
            (isHere ? mine : byOwner.computeIfAbsent(owner, found -> new ArrayList<>())).addAll(keys);
        });
        List<CompletableFuture<long[]>> answers = new ArrayList<>();
        byOwner.forEach((owner, keys) -> answers.add(toMember(engine, owner, task.part(keys))));
        if (!mine.isEmpty()) {
            answers.add(PartitionSteps.here(engine, task.part(mine)));
        }
        return PartitionSteps.together(answers);
    }

    private static CompletableFuture<long[]> toMember(NodeEngine engine, Address owner, TransactionTask task) {
        return engine.getOperationService().createInvocationBuilder(MapService.SERVICE_NAME, new MemberStep(task), owner)
            .setTryCount(1).<long[]>invoke().handleAsync((answers, error) -> error == null
                ? CompletableFuture.completedFuture(answers) : withoutMember(engine, task, PartitionSteps.cause(error)),
                ConcurrencyUtil.CALLER_RUNS)
            .thenCompose(answer -> answer);
    }

    /** The member has left, or cannot be reached: its partitions get other owners. */
    private static CompletableFuture<long[]> withoutMember(NodeEngine engine, TransactionTask task, Throwable error) {
        return error instanceof MemberLeftException || error instanceof RetryableException ? PartitionSteps.here(engine, task)
            : CompletableFuture.failedFuture(error);
    }
}
