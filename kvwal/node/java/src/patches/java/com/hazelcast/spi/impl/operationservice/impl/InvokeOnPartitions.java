package com.hazelcast.spi.impl.operationservice.impl;

import com.hazelcast.client.impl.operations.OperationFactoryWrapper;
import com.hazelcast.cluster.Address;
import com.hazelcast.internal.util.CollectionUtil;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.operation.BulkEntryOperations;
import com.hazelcast.spi.impl.operationservice.AbstractInvokeOnPartitions;
import com.hazelcast.spi.impl.operationservice.BackupAwareOperation;
import com.hazelcast.spi.impl.operationservice.NamedOperation;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.OperationFactory;
import com.hazelcast.spi.impl.operationservice.impl.operations.PartitionIteratingOperation.PartitionResponse;
import com.hazelcast.spi.impl.operationservice.impl.operations.PartitionIteratingOperation;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.IntFunction;
import kvwal.node.LoggedMaps;

/**
 * Patch of Hazelcast's class: sends an operation to many partitions or all, and gathers the answers.
 *
 * Hazelcast sends one message to each member, which runs the operation on its partitions and responds without waiting for the
 * backups of what changes. For a map with a log such an operation goes to each partition on its own, and the sender waits for the
 * backups too. When it is unknown whether they have the change, it is not retried: an entry processor may not run twice.
 */
final class InvokeOnPartitions extends AbstractInvokeOnPartitions {
    private static final Object NOTHING = new Object();

    private final Map<Address, List<Integer>> memberPartitions;
    private final AtomicReferenceArray<Object> answers;
    private final AtomicInteger left;

    InvokeOnPartitions(OperationServiceImpl operations, String service, OperationFactory factory,
                       Map<Address, List<Integer>> memberPartitions) {
        super(operations.nodeEngine, operations, service, factory);
        this.memberPartitions = memberPartitions;
        answers = new AtomicReferenceArray<>(operations.nodeEngine.getPartitionService().getPartitionCount());
        left = new AtomicInteger(memberPartitions.values().stream().mapToInt(List::size).sum());
    }

    @Override
    @SuppressWarnings("unchecked")
    protected void doInvoke() {
        ensureNotCallingFromPartitionOperationThread();
        if (left.get() == 0) {
            future.complete(Map.of());
            return;
        }
        Operation sample = sample();
        if (sample instanceof BackupAwareOperation) {
            IntFunction<Operation> operations =
                BulkEntryOperations.withBackups(sample, this::createOperation, nodeEngine.getPartitionService());
            memberPartitions.values().forEach(own -> own.forEach(partition -> send(partition, operations.apply(partition))));
        } else {
            memberPartitions.forEach(this::sendTogether);
        }
    }

    /** The operation as one of the partitions gets it, if it is on a map with a log; else null. */
    private Operation sample() {
        if (!MapService.SERVICE_NAME.equals(serviceName)) {
            return null;
        }
        int partition = memberPartitions.values().stream().flatMap(List::stream).findFirst().orElseThrow();
        Operation operation = createOperation(partition);
        return operation instanceof NamedOperation named && LoggedMaps.has(named.getName()) ? operation : null;
    }

    private void send(int partition, Operation operation) {
        if (operationFactory instanceof OperationFactoryWrapper ofClient) {
            operation.setCallerUuid(ofClient.getUuid());
        }
        operationService.createInvocationBuilder(serviceName, operation, partition).invoke()
            .whenCompleteAsync((answer, error) -> {
                keep(partition, error == null ? answer : error);
                answered(1);
            }, internalAsyncExecutor);
    }

    /** As in Hazelcast: each partition that failed is tried once more, on its own. */
    @SuppressWarnings("unchecked")
    private void sendTogether(Address member, List<Integer> partitions) {
        Operation operation = new PartitionIteratingOperation(operationFactory, CollectionUtil.toIntArray(partitions));
        operationService.createInvocationBuilder(serviceName, operation, member)
            .setTryCount(TRY_COUNT).setTryPauseMillis(TRY_PAUSE_MILLIS).invoke()
            .handleAsync((answer, error) -> {
                if (error == null) {
                    together(partitions, nodeEngine.toObject(answer));
                } else {
                    logger.warning(error.getMessage());
                    partitions.forEach(partition -> send(partition, createOperation(partition)));
                }
                return null;
            }, internalAsyncExecutor)
            .exceptionally(error -> {
                future.completeExceptionally(error); // an answer that cannot be read
                return null;
            });
    }

    private void together(List<Integer> asked, PartitionResponse response) {
        int[] partitions = response.getPartitions();
        Object[] results = response.getResults();
        int failed = 0;
        for (int i = 0; i < partitions.length; i++) {
            if (results[i] instanceof Throwable) {
                send(partitions[i], createOperation(partitions[i]));
                failed++;
            } else {
                keep(partitions[i], results[i]);
            }
        }
        answered(asked.size() - failed);
    }

    private void keep(int partition, Object answer) {
        answers.set(partition, answer == null ? NOTHING : answer);
    }

    @SuppressWarnings("unchecked")
    private void answered(int count) {
        if (left.addAndGet(-count) > 0) {
            return;
        }
        Map<Integer, Object> all = new HashMap<>();
        for (int partition = 0; partition < answers.length(); partition++) {
            Object answer = answers.get(partition);
            if (answer instanceof Throwable error) {
                future.completeExceptionally(error);
                return;
            }
            if (answer != null) {
                all.put(partition, answer == NOTHING ? null : answer);
            }
        }
        future.complete(all);
    }
}
