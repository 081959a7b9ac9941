package kvwal.backups;

import com.hazelcast.core.IndeterminateOperationStateException;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.OperationResponseHandler;
import com.hazelcast.spi.impl.operationservice.impl.responses.CallTimeoutResponse;
import com.hazelcast.spi.impl.operationservice.impl.responses.ErrorResponse;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Response handler that sends an operation's response when every pending change that it shows is settled; mostly at once. No
 * thread waits meanwhile, and the next operation of the partition begins. An error shows no change, and is sent at once.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
final class DeferredResponse implements OperationResponseHandler, PendingChanges.Held {
    private final PendingChanges pending;
    private final OperationResponseHandler sender;
    private final AtomicBoolean isSent = new AtomicBoolean();
    private Operation operation;
    private boolean changed;

    private DeferredResponse(PendingChanges pending, OperationResponseHandler sender) {
        this.pending = pending;
        this.sender = sender;
    }

    /** Makes the response of an operation wait for the changes that it shows. */
    static void install(PendingChanges pending, Operation operation) {
        OperationResponseHandler<?> handler = operation.getOperationResponseHandler();
        if (handler != null && !(handler instanceof DeferredResponse) && !(handler instanceof StepHandler)) {
            operation.setOperationResponseHandler(new DeferredResponse(pending, handler));
        }
    }

    @Override
    public void sendResponse(Operation answered, Object response) {
        List<PendingChange> own = pending.end(answered);
        boolean failed = isError(response);
        boolean awaited = false;
        if (!own.isEmpty()) {
            awaited = !failed && pending.expectBackups(answered, own, response, sender);
            if (!awaited) {
                pending.doubt(answered, own, failed);
            }
        }
        Collection<PendingChange> shown = failed ? List.of() : pending.shownBy(answered, awaited ? own : List.of());
        if (shown.isEmpty()) {
            sender.sendResponse(answered, response);
            return;
        }
        operation = answered;
        changed = !own.isEmpty();
        pending.hold(this, answered);
        CompletableFuture<?>[] settled = shown.stream().map(change -> change.settled).toArray(CompletableFuture<?>[]::new);
        CompletableFuture.allOf(settled).whenComplete((nothing, error) -> {
            if (error == null) {
                send(response);
            } else {
                fail(new RetryableHazelcastException("Another member owns the partition now."));
            }
        });
    }

    private static boolean isError(Object response) {
        return response instanceof Throwable || response instanceof ErrorResponse || response instanceof CallTimeoutResponse;
    }

    /** Sends an error instead of the response. A change that the operation itself made may exist or not. */
    @Override
    public void fail(RuntimeException error) {
        send(changed ? new IndeterminateOperationStateException("The change is in a log, and not known to be at its backups: "
            + error.getMessage()) : error);
    }

    private void send(Object response) {
        if (isSent.compareAndSet(false, true)) {
            pending.release(this, operation);
            sender.sendResponse(operation, response);
        }
    }
}
