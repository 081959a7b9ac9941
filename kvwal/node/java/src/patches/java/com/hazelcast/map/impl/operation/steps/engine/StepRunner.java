package com.hazelcast.map.impl.operation.steps.engine;

import com.hazelcast.core.Offloadable;
import com.hazelcast.internal.namespace.NamespaceUtil;
import com.hazelcast.internal.util.ThreadUtil;
import com.hazelcast.map.impl.operation.MapOperation;
import com.hazelcast.map.impl.operation.TimestampResponse;
import com.hazelcast.map.impl.recordstore.RecordStore;
import com.hazelcast.spi.exception.RetryableException;
import com.hazelcast.spi.impl.PartitionSpecificRunnable;
import com.hazelcast.spi.impl.executionservice.ExecutionService;
import com.hazelcast.spi.impl.operationexecutor.OperationExecutor;
import com.hazelcast.spi.impl.operationservice.Offload;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.OperationResponseHandler;
import com.hazelcast.spi.impl.operationservice.impl.OperationServiceImpl;
import java.util.Set;
import kvwal.backups.StepHandler;
import kvwal.log.LoggedRetry;
import kvwal.log.PendingAppend;
import kvwal.log.Timestamped;
import kvwal.node.NotWritten;

/**
 * Patch of Hazelcast's class: runs the steps of the operations on one partition of a map that has a store, one operation after
 * the other.
 *
 * In Hazelcast a step that stores runs on a thread of its own, which blocks until the store returns: two more thread switches for
 * every change. Here the partition's own thread sends the change to the log, does other work, and continues the operation when
 * the log has answered. A log loads nothing, so a step that loads does not wait.
 */
public class StepRunner extends Offload implements PartitionSpecificRunnable {
    public static final ThreadLocal<Boolean> CURRENTLY_EXECUTING_ON_PARTITION_THREAD = ThreadLocal.withInitial(() -> false);

    private final int partition;
    private final String namespace;
    private final OperationExecutor executor;
    /** Operations of the partition. The first is under way; it is removed when its response is sent. */
    private final Set<MapOperation> operations;
    private volatile StepSupplier steps;
    private volatile PendingAppend append;
    /** What the log has of the operation under way, or a part of it; null if nothing. Memory may not have it yet. */
    private volatile PendingAppend logged;
    /** Executor of the steps that belong neither to the partition's thread nor to a store. */
    private volatile String elsewhere;

    public StepRunner(MapOperation operation) {
        super(operation);
        partition = operation.getPartitionId();
        namespace = operation.getMapContainer().getMapConfig().getUserCodeNamespace();
        executor = ((OperationServiceImpl) operation.getNodeEngine().getOperationService()).getOperationExecutor();
        operations = operation.getRecordStore().getOffloadedOperations();
    }

    /** MapOperation calls it: an entry processor that reads other keys of this member would wait for itself. */
    public static boolean isStepRunnerCurrentlyExecutingOnPartitionThread() {
        return CURRENTLY_EXECUTING_ON_PARTITION_THREAD.get();
    }

    @Override
    public int getPartitionId() {
        return partition;
    }

    @Override
    public void start() {
        MapOperation operation = (MapOperation) offloadedOperation();
        if (operations.add(operation)) {
            operation.getRecordStore().incMapStoreOffloadedOperationsCount();
        }
        if (operations.size() == 1) {
            run();
        }
    }

    @Override
    public void run() {
        boolean here = ThreadUtil.isRunningOnPartitionThread();
        while (!Thread.currentThread().isInterrupted()) {
            try {
                if (here) {
                    settle();
                }
                if (!advance(here)) {
                    return;
                }
            } catch (Throwable error) {
                steps.handleOperationError(error);
            }
        }
    }

    /** The log has answered what the last step sent: throws if it refused. */
    private void settle() {
        PendingAppend answered = append;
        append = null;
        if (answered != null) {
            logged = answered.mayBeLogged() ? answered : logged;
            answered.check();
        }
    }

    /** Runs the next step. False if another thread, or a later call, continues. */
    private boolean advance(boolean here) {
        Runnable step = steps == null ? null : steps.get();
        if (step == null) {
            return here ? beginNext() : handOver(null);
        }
        String place = place(step);
        if (here && place == null) {
            return runHere(step);
        }
        if (!here && place != null && place.equals(elsewhere)) {
            NamespaceUtil.runWithNamespace(nodeEngine, namespace, step);
            return true;
        }
        return handOver(place);
    }

    private boolean beginNext() {
        logged = null;
        for (MapOperation operation : operations) {
            steps = new StepSupplier(operation);
            return true;
        }
        steps = null;
        return false;
    }

    /** Executor of a step; null for the partition's thread. */
    private static String place(Runnable step) {
        if (step instanceof PartitionSpecificRunnable) {
            return null;
        }
        String name = ((Offloadable) step).getExecutorName();
        return name.equals(ExecutionService.MAP_STORE_OFFLOADABLE_EXECUTOR) ? null : name;
    }

    private boolean handOver(String place) {
        if (place == null) {
            executor.execute(this);
        } else {
            elsewhere = place;
            executionService.getExecutor(place).execute(this);
        }
        return false;
    }

    private boolean runHere(Runnable step) {
        // Each time: an operation that Hazelcast sends again after a member left has another handler.
        MapOperation operation = steps.getOperation();
        OperationResponseHandler<?> handler = operation.getOperationResponseHandler();
        if (!(handler instanceof StepHandler)) {
            operation.setOperationResponseHandler(new StepResponseHandler(handler));
        }
        if (step instanceof PartitionSpecificRunnable) {
            // A step may run another operation, which waited for a lock that it releases: that one waits for the log itself.
            PendingAppend.outside(() -> runMarked(step));
            return true;
        }
        PendingAppend handedOver = PendingAppend.during(() -> runMarked(step));
        if (handedOver == null) {
            return true;
        }
        append = handedOver;
        handedOver.then(() -> executor.execute(this));
        return false;
    }

    private void runMarked(Runnable step) {
        CURRENTLY_EXECUTING_ON_PARTITION_THREAD.set(true);
        try {
            NamespaceUtil.runWithNamespace(nodeEngine, namespace, step);
        } finally {
            CURRENTLY_EXECUTING_ON_PARTITION_THREAD.set(false);
        }
    }

    /** The response ends an operation: the next one of the partition begins. */
    @SuppressWarnings({"rawtypes", "unchecked"})
    private final class StepResponseHandler implements OperationResponseHandler, StepHandler {
        private final OperationResponseHandler sender;

        StepResponseHandler(OperationResponseHandler sender) {
            this.sender = sender;
        }

        @Override
        public void sendResponse(Operation operation, Object response) {
            if (!operations.remove(operation)) {
                return;
            }
            RecordStore<?> memory = ((MapOperation) operation).getRecordStore();
            if (memory != null) {
                memory.decMapStoreOffloadedOperationsCount();
            }
            if (logged == null) {
                sender.sendResponse(operation, response);
            } else if (response instanceof NotWritten refusal) {
                sender.sendResponse(operation, NotWritten.afterAll(refusal));
            } else if (response instanceof RetryableException) {
                logged.giveUp();
                LoggedRetry.send(nodeEngine, operation, answer -> sender.sendResponse(operation, answer));
            } else {
                long timestamp = logged.timestamp();
                if (operation instanceof Timestamped change) {
                    change.setTimestamp(timestamp);
                }
                sender.sendResponse(operation, TimestampResponse.of(operation, response, timestamp));
            }
        }
    }
}
