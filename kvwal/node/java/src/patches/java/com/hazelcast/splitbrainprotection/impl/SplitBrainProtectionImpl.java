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
import kvwal.quorum.Majority;

/**
 * Stands before Hazelcast's class of this name on the class path. That one remembers what it decided when it last heard of a
 * change, which another thread tells it some time later, and refuses without saying why; here each operation is
 * decided by the members that are there at that moment, and the refusal is a sentence.
 */
public class SplitBrainProtectionImpl implements SplitBrainProtection {
    /** By these members agree that a map is loaded. Refused once, they are not sent again, and the map would be "loading" for ever. */
    private static final Set<Class<?>> OF_LOADING = Set.of(IsKeyLoadFinishedOperation.class, IsPartitionLoadedOperation.class,
        KeyLoadStatusOperation.class, PutFromLoadAllOperation.class, TriggerLoadIfNeededOperation.class);

    private final NodeEngineImpl engine;
    private final SplitBrainProtectionConfig config;
    private final Majority majority;

    SplitBrainProtectionImpl(SplitBrainProtectionConfig config, NodeEngineImpl engine) {
        this.engine = engine;
        this.config = config;
        this.majority = (Majority) config.getFunctionImplementation();
    }

    void ensureNoSplitBrain(Operation operation) {
        boolean isOfClients = operation instanceof ReadonlyOperation || operation instanceof MutatingOperation;
        if (isOfClients && !OF_LOADING.contains(operation.getClass()) && !(operation instanceof SplitBrainProtectionCheckAwareOperation aware
            && !aware.shouldCheckSplitBrainProtection())) {
            ensureNoSplitBrain();
            majority.pass(engine, operation);
        }
    }

    void ensureNoSplitBrain() {
        majority.check(engine.getClusterService().getMembers());
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
        return majority.apply(engine.getClusterService().getMembers());
    }
}
