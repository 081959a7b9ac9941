package com.hazelcast.spi.impl.operationservice.impl;

import com.hazelcast.internal.util.ConcurrencyUtil;
import com.hazelcast.spi.impl.InternalCompletableFuture;
import com.hazelcast.spi.impl.operationservice.OperationResponseHandler;
import java.util.function.Consumer;

/**
 * End of an invocation that this member made. In Hazelcast's package, because only there the invocation of an operation is
 * visible.
 */
public final class LocalInvocation {
    private LocalInvocation() { }

    /**
     * False if another member made the invocation. Otherwise `action` runs on the thread that ends it, and hears whether it
     * succeeded: then as many backups have the change as the owner sent it to.
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
