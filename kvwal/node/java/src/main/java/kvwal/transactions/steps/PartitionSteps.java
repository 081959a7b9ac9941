package kvwal.transactions.steps;

import com.hazelcast.internal.partition.IPartitionService;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.util.ConcurrencyUtil;
import com.hazelcast.map.impl.MapEntries;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.spi.impl.NodeEngine;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/** Runs tasks of a transaction by one operation for each partition, and gathers the answers. */
public final class PartitionSteps {
    private PartitionSteps() { }

    /**
     * Runs a task where its partitions are; usually at this member. The answers are the number of each partition and what the
     * task answered there, 0 if nothing.
     */
    public static CompletableFuture<long[]> here(NodeEngine engine, TransactionTask task) {
        List<CompletableFuture<long[]>> answers = new ArrayList<>();
        byPartition(engine, task.keys()).forEach((partition, keys) -> {
            TransactionTask part = task.part(keys);
            PartitionStep step = new PartitionStep(part);
            answers.add(engine.getOperationService()
                .<MapEntries>invokeOnPartitionAsync(MapService.SERVICE_NAME, step, partition)
                .thenApplyAsync(said -> new long[] {partition, part.answer(answer(engine, said), step.timestamp())},
                    ConcurrencyUtil.CALLER_RUNS));
        });
        return together(answers);
    }

    private static long answer(NodeEngine engine, MapEntries said) {
        return said.isEmpty() ? 0 : engine.<Long>toObject(said.getValue(0));
    }

    /** Keys by their partitions, in the order of the partitions. */
    public static Map<Integer, List<Data>> byPartition(NodeEngine engine, Collection<Data> keys) {
        IPartitionService partitions = engine.getPartitionService();
        Map<Integer, List<Data>> found = new TreeMap<>();
        for (Data key : keys) {
            found.computeIfAbsent(partitions.getPartitionId(key), partition -> new ArrayList<>()).add(key);
        }
        return found;
    }

    /** All answers, or one of the errors. */
    static CompletableFuture<long[]> together(List<CompletableFuture<long[]>> answers) {
        return CompletableFuture.allOf(answers.toArray(new CompletableFuture<?>[0]))
            .thenApply(nothing -> answers.stream().map(CompletableFuture::join).flatMapToLong(Arrays::stream).toArray());
    }

    /** What an operation threw. */
    static Throwable cause(Throwable error) {
        return error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    }
}
