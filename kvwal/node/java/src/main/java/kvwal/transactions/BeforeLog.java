package kvwal.transactions;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.core.IndeterminateOperationStateException;
import com.hazelcast.core.MemberLeftException;
import com.hazelcast.core.OperationTimeoutException;
import com.hazelcast.spi.exception.RetryableException;
import java.util.function.Supplier;
import kvwal.node.NotWritten;
import kvwal.node.TaskIds;

/** Steps of a transaction before its intent is logged: their errors say that nothing was written. */
final class BeforeLog {
    private BeforeLog() { }

    /** Does what comes before an intent is logged: after an error nothing was written. */
    static <T> T run(HazelcastInstance instance, Supplier<T> step) {
        try {
            return step.get();
        } catch (RuntimeException error) {
            if (error instanceof NotWritten || error instanceof RetryableException) {
                throw error;
            }
            if (isOfTheCluster(error)) {
                throw new NotWritten("ClusterUnreachable: a member did not answer in time (" + error + "); nothing was written.");
            }
            if (String.valueOf(error).contains(TaskIds.UNKNOWN)) {
                throw new NotWritten("ConfigError: a member of the cluster is of an earlier version and does not know this"
                    + " request; nothing was written. Update all members.");
            }
            instance.getLoggingService().getLogger(BeforeLog.class)
                .severe("A transaction met a bug of this member, or has data that cannot be read. Nothing was written.", error);
            throw new NotWritten("KvwalError: a bug of a member, or data that it cannot read (" + error + "); nothing was"
                + " written. The log of the member " + instance.getCluster().getLocalMember().getUuid()
                + " has the trace. Report it.");
        }
    }

    /** Whether it is an error of a member that is silent, or leaves. */
    private static boolean isOfTheCluster(Throwable error) {
        return error != null && (error instanceof OperationTimeoutException || error instanceof MemberLeftException
            || error instanceof IndeterminateOperationStateException || error instanceof HazelcastInstanceNotActiveException
            || error instanceof RetryableException || isOfTheCluster(error.getCause()));
    }
}
