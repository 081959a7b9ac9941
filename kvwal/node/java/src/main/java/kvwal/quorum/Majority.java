package kvwal.quorum;

import com.hazelcast.cluster.Member;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import com.hazelcast.spi.impl.NodeEngineImpl;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.splitbrainprotection.SplitBrainProtectionFunction;
import java.util.Collection;
import java.util.Set;
import java.util.TreeSet;
import kvwal.node.NotWritten;
import kvwal.node.ReadyGate;

/**
 * Whether this member is together with more than half of those that are expected: asked before every read and every write
 * of a map that has a log.
 *
 * A member that has not answered this one of late is not counted (Leases): so the half that was cut off stops before the other
 * half takes its keys over. Whoever asks meanwhile is sent back, and tries again.
 */
public final class Majority implements SplitBrainProtectionFunction {
    private static final String NODE = "kvwal.node";

    private final ReadyGate gate;
    private final Leases leases;
    private volatile Set<String> expected;

    public Majority(ReadyGate gate, Leases leases) {
        this.gate = gate;
        this.leases = leases;
    }

    /** Whose presence counts from now on. Before the first call nothing is refused. */
    public void expect(String[] names) {
        expected = Set.of(names);
    }

    /** The operation may run. */
    public void pass(NodeEngineImpl engine, Operation operation) {
        gate.pending.pass(engine, operation);
    }

    /** Throws if the half that is `members` may not serve: nothing was read or written then. */
    public void check(Collection<? extends Member> members) {
        gate.checkWhole();
        Set<String> wanted = expected;
        if (wanted == null) {
            return;
        }
        int there = 0;
        int talking = 0;
        for (Member member : members) {
            if (wanted.contains(member.getAttribute(NODE))) {
                there++;
                talking += member.localMember() || leases.isHeld(member) ? 1 : 0;
            }
        }
        if (2 * there <= wanted.size()) {
            throw refusal(members, wanted, there);
        }
        if (2 * talking <= wanted.size()) {
            throw new RetryableHazelcastException("ClusterUnreachable: of " + wanted.size() + " expected members this one hears "
                + (talking - 1) + " others; nothing was read or written.");
        }
    }

    private static NotWritten refusal(Collection<? extends Member> members, Set<String> wanted, int there) {
        Set<String> missing = new TreeSet<>(wanted);
        members.forEach(member -> missing.remove(member.getAttribute(NODE)));
        return new NotWritten("ClusterUnreachable: this half of the cluster has " + there + " of the " + wanted.size()
            + " members that are expected, which is not more than half (missing: " + String.join(", ", missing)
            + "); nothing was read or written. Ask a member of the other half, or bring the missing ones back.");
    }

    @Override
    public boolean apply(Collection<Member> members) {
        try {
            check(members);
            return true;
        } catch (NotWritten | RetryableHazelcastException error) {
            return false;
        }
    }
}
