package kvwal.backups;

import com.hazelcast.cluster.Member;
import com.hazelcast.map.impl.operation.MapOperation;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import com.hazelcast.spi.impl.NodeEngineImpl;
import com.hazelcast.spi.impl.operationservice.BackupOperation;
import com.hazelcast.spi.impl.operationservice.MutatingOperation;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.splitbrainprotection.SplitBrainProtectionFunction;
import java.util.Collection;
import kvwal.locks.HoldsLocks;
import kvwal.locks.TransactionLocks;
import kvwal.node.NotWritten;
import kvwal.quorum.Majority;

/**
 * Guard of every read and write of a map with a log: checks that this member is in the majority, and that no transaction has
 * locked what an operation changes; and tracks the changes.
 */
public final class OperationGuard implements SplitBrainProtectionFunction {
    private final Majority majority;
    private final PendingChanges pending;

    public OperationGuard(Majority majority, PendingChanges pending) {
        this.majority = majority;
        this.pending = pending;
    }

    /** An operation of a client is about to run: throws if this member may not serve, before anything is read or written. */
    public void check(NodeEngineImpl engine, Operation operation) {
        majority.check(engine.getClusterService().getMembers());
        boolean isStep = operation.getOperationResponseHandler() instanceof StepHandler;
        boolean isChange = operation instanceof MutatingOperation && !(operation instanceof BackupOperation);
        if (isStep && isChange && operation instanceof MapOperation change && !(operation instanceof HoldsLocks)) {
            TransactionLocks.check(engine, change);
        }
        if (pending.follow(engine, operation)) {
            DeferredResponse.install(pending, operation);
        }
    }

    /** Throws if this member may not serve together with `members`. */
    public void check(Collection<? extends Member> members) {
        majority.check(members);
    }

    @Override
    public boolean apply(Collection<Member> members) {
        try {
            majority.check(members);
            return true;
        } catch (NotWritten | RetryableHazelcastException error) {
            return false;
        }
    }
}
