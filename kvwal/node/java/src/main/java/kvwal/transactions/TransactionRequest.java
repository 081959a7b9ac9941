package kvwal.transactions;

import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.client.impl.protocol.task.executorservice.ExecutorServiceSubmitToPartitionMessageTask;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.spi.impl.operationservice.Operation;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import kvwal.node.TaskIds;

/**
 * A client's transaction. The member that gets it runs it, once. Hazelcast would run it where a partition is, and again after
 * some errors, for a minute: after its client has gone on, too.
 */
public final class TransactionRequest extends ExecutorServiceSubmitToPartitionMessageTask {
    private final long arrived = System.nanoTime();

    public TransactionRequest(ClientMessage message, Node node) {
        super(message, node, message.getConnection());
    }

    @Override
    public int getPartitionId() {
        return Operation.GENERIC_PARTITION_ID;
    }

    @Override
    protected CompletableFuture<Object> processInternal() {
        if (!(serializationService.toObject(parameters.callable) instanceof RunTransaction task)) {
            throw new UnsupportedOperationException("The executor " + TaskIds.TRANSACTIONS + " runs transactions only; nothing"
                + " was run.");
        }
        task.setArrival(arrived);
        Executor threads = nodeEngine.getExecutionService().getExecutor(TaskIds.TRANSACTIONS);
        return CompletableFuture.supplyAsync(task::call, threads);
    }
}
