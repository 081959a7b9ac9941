package com.hazelcast.splitbrainprotection.impl;

import com.hazelcast.cluster.Member;
import com.hazelcast.cluster.MembershipEvent;
import com.hazelcast.config.SplitBrainProtectionConfig;
import com.hazelcast.map.impl.operation.IsKeyLoadFinishedOperation;
import com.hazelcast.map.impl.operation.IsPartitionLoadedOperation;
import com.hazelcast.map.impl.operation.KeyLoadStatusOperation;
import com.hazelcast.map.impl.operation.PutFromLoadAllOperation;
import com.hazelcast.map.impl.operation.TriggerLoadIfNeededOperation;
import com.hazelcast.spi.impl.NodeEngineImpl;
import com.hazelcast.spi.impl.operationservice.MutatingOperation;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.ReadonlyOperation;
import com.hazelcast.spi.impl.operationservice.SplitBrainProtectionCheckAwareOperation;
import com.hazelcast.splitbrainprotection.SplitBrainProtection;
import java.util.Collection;
import java.util.Set;
import kvwal.backups.OperationGuard;

/**
 * Patch of Hazelcast's class: decides whether an operation may run on this side of a cut cluster.
 *
 * Hazelcast caches a decision, which another thread updates some time after the members change, and refuses without a reason.
 * Here each operation is decided by the members of that moment, and the refusal says why.
 */
public class SplitBrainProtectionImpl implements SplitBrainProtection {
    /**
     * Operations by which members agree that a map is loaded. Hazelcast does not retry them: one refusal would leave the map
     * "loading" for ever.
     */
    private static final Set<Class<?>> OF_LOADING = Set.of(IsKeyLoadFinishedOperation.class, IsPartitionLoadedOperation.class,
        KeyLoadStatusOperation.class, PutFromLoadAllOperation.class, TriggerLoadIfNeededOperation.class);

    private final NodeEngineImpl engine;
    private final SplitBrainProtectionConfig config;
    private final OperationGuard guard;

    SplitBrainProtectionImpl(SplitBrainProtectionConfig config, NodeEngineImpl engine) {
        this.engine = engine;
        this.config = config;
        this.guard = (OperationGuard) config.getFunctionImplementation();
    }

    void ensureNoSplitBrain(Operation operation) {
        boolean isOfClients = operation instanceof ReadonlyOperation || operation instanceof MutatingOperation;
        boolean isExempt = operation instanceof SplitBrainProtectionCheckAwareOperation aware
            && !aware.shouldCheckSplitBrainProtection();
        if (isOfClients && !isExempt && !OF_LOADING.contains(operation.getClass())) {
            guard.check(engine, operation);
        }
    }

    void ensureNoSplitBrain() {
        guard.check(engine.getClusterService().getMembers());
    }

    void onHeartbeat(Member member, long timestamp) { }

    void onMemberAdded(MembershipEvent event) { }

    void onMemberRemoved(MembershipEvent event) { }

    void update(Collection<Member> members) { }

    void onPing(Member member, boolean successful) { }

    boolean isHeartbeatAware() {
        return false;
    }

    boolean isPingAware() {
        return false;
    }

    public String getName() {
        return config.getName();
    }

    public int getMinimumClusterSize() {
        return config.getMinimumClusterSize();
    }

    public SplitBrainProtectionConfig getConfig() {
        return config;
    }

    @Override
    public boolean hasMinimumSize() {
        return guard.apply(engine.getClusterService().getMembers());
    }
}
