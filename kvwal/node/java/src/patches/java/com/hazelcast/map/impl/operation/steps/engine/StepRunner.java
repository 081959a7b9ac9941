package com.hazelcast.map.impl.operation.steps.engine;

import com.hazelcast.core.Offloadable;
import com.hazelcast.internal.namespace.NamespaceUtil;
import com.hazelcast.internal.util.ThreadUtil;
import com.hazelcast.map.impl.operation.MapOperation;
import com.hazelcast.map.impl.recordstore.RecordStore;
import com.hazelcast.spi.impl.PartitionSpecificRunnable;
import com.hazelcast.spi.impl.executionservice.ExecutionService;
import com.hazelcast.spi.impl.operationexecutor.OperationExecutor;
import com.hazelcast.spi.impl.operationservice.Offload;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.OperationResponseHandler;
import com.hazelcast.spi.impl.operationservice.impl.OperationServiceImpl;
import java.util.Set;
import kvwal.log.PendingAppend;
import kvwal.node.NotWritten;

/**
 * Stands before Hazelcast's class of this name on the class path: runs the steps of the operations on one partition of a map that
 * has a store, one operation after the other.
 *
 * Hazelcast's gives each step that stores to a thread which waits for the store: two more threads to wake for every change. Here the
 * partition's own thread hands the change over to the log, does something else, and goes on with the operation when the
 * log has answered. Nothing is loaded from a log, so a step that loads waits for nobody.
 */
public class StepRunner extends Offload implements PartitionSpecificRunnable {
    public static final ThreadLocal<Boolean> CURRENTLY_EXECUTING_ON_PARTITION_THREAD = ThreadLocal.withInitial(() -> false);

    private final int partition;
    private final String namespace;
    private final OperationExecutor executor;
    /** Those of the partition; the first is under way, and removed when its answer is sent. */
    private final Set<MapOperation> operations;
    private volatile StepSupplier steps;
    private volatile PendingAppend waiting;
    /** The change of the operation that is under way is in the log: it may fail all the same, before it is in memory. */
    private volatile boolean isLogged;
    /** Of whoever runs steps that are neither for a partition's thread nor for a store. */
    private volatile String elsewhere;

    public StepRunner(MapOperation operation) {
        super(operation);
        partition = operation.getPartitionId();
        namespace = operation.getMapContainer().getMapConfig().getUserCodeNamespace();
        executor = ((OperationServiceImpl) operation.getNodeEngine().getOperationService()).getOperationExecutor();
        operations = operation.getRecordStore().getOffloadedOperations();
    }

    /** Asked by MapOperation: an entry processor that reads other keys of this member would wait for itself. */
    public static boolean isStepRunnerCurrentlyExecutingOnPartitionThread() {
        return CURRENTLY_EXECUTING_ON_PARTITION_THREAD.get();
    }

    /** Whether an operation's steps have begun, by what sends its answer. */
    public static boolean answersBy(OperationResponseHandler<?> handler) {
        return handler instanceof StepResponseHandler;
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

    /** The log has answered what the last step handed over: throws if it refused. */
    private void settle() {
        PendingAppend answered = waiting;
        waiting = null;
        if (answered != null) {
            answered.check();
            isLogged = true;
        }
    }

    /** Runs the next step; false if it is not for this thread, or not for now, and somebody else goes on. */
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
        isLogged = false;
        for (MapOperation operation : operations) {
            steps = new StepSupplier(operation);
            return true;
        }
        steps = null;
        return false;
    }

    /** The executor that a step is for; null for the partition's thread. */
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
        // Set anew each time: an operation that is sent again when a member left comes with another one.
        MapOperation operation = steps.getOperation();
        OperationResponseHandler<?> handler = operation.getOperationResponseHandler();
        if (!(handler instanceof StepResponseHandler)) {
            operation.setOperationResponseHandler(new StepResponseHandler(handler));
        }
        if (step instanceof PartitionSpecificRunnable) {
            // What it runs besides, as an operation that waited for a lock it lets go of, waits for the log by itself.
            PendingAppend.outside(() -> runMarked(step));
            return true;
        }
        PendingAppend handedOver = PendingAppend.during(() -> runMarked(step));
        if (handedOver == null) {
            return true;
        }
        waiting = handedOver;
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

    /** An operation is over when its answer is sent: then the next one of the partition begins. */
    @SuppressWarnings({"rawtypes", "unchecked"})
    private final class StepResponseHandler implements OperationResponseHandler {
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
            sender.sendResponse(operation, isLogged && response instanceof NotWritten refusal ? refusal.afterAll() : response);
        }
    }
}
