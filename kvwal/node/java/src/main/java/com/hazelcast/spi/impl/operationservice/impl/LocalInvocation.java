package com.hazelcast.spi.impl.operationservice.impl;

import com.hazelcast.internal.util.ConcurrencyUtil;
import com.hazelcast.spi.impl.InternalCompletableFuture;
import com.hazelcast.spi.impl.operationservice.OperationResponseHandler;
import java.util.function.Consumer;

/** When a call of this member is over. Stands in Hazelcast's package, because only there the call of an operation can be seen. */
public final class LocalInvocation {
    private LocalInvocation() { }

    /**
     * False if the call is another member's. Else `action` hears, on the thread that ends the call, whether it succeeded: then as many
     * backups have the change as the owner sent it to.
     */
    public static boolean then(OperationResponseHandler<?> handler, Consumer<Boolean> action) {
        if (!(handler instanceof Invocation<?> call)) {
            return false;
        }
        InternalCompletableFuture<?> future = call.future;
        future.whenCompleteAsync((answer, error) -> action.accept(error == null), ConcurrencyUtil.CALLER_RUNS);
        return true;
    }
}
