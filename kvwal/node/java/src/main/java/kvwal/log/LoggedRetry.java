package kvwal.log;

import com.hazelcast.core.IndeterminateOperationStateException;
import com.hazelcast.internal.util.ConcurrencyUtil;
import com.hazelcast.spi.impl.NodeEngine;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.OperationAccessor;
import java.util.function.Consumer;

/**
 * Retry of an operation whose change this member's log has and its memory has not: its partition began to move in between, or
 * this member lost a lease.
 *
 * Hazelcast retries too, but forgets the first attempt: a refusal of the last one would say that nothing was written. This retry
 * ends with success, or with an unknown outcome.
 */
public final class LoggedRetry {
    private LoggedRetry() { }

    /**
     * Sends a copy of `operation` to the owner of its partition. `answer` gets the response, or the error of an unknown outcome.
     */
    public static void send(NodeEngine engine, Operation operation, Consumer<Object> answer) {
        try {
            Operation again = OperationAccessor.cloneAndReset(operation, engine.getSerializationService());
            engine.getOperationService()
                .createInvocationBuilder(operation.getServiceName(), again, operation.getPartitionId())
                .setResultDeserialized(false).setAsync().invoke()
                .whenCompleteAsync((response, error) -> answer.accept(error == null ? response : unknown(error)),
                    ConcurrencyUtil.CALLER_RUNS);
        } catch (RuntimeException error) {
            answer.accept(unknown(error));
        }
    }

    private static IndeterminateOperationStateException unknown(Throwable error) {
        return new IndeterminateOperationStateException(
            "The change is in this member's log, and not known to be in memory: " + error.getMessage());
    }
}
