package kvwal.quorum;

import com.hazelcast.cluster.Member;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.util.Collection;
import java.util.Set;
import java.util.TreeSet;
import kvwal.node.NotWritten;
import kvwal.node.ReadyGate;

/**
 * Quorum rule for serving: this member has to be together with more than half of the expected members. Checked before every read
 * and write of a map with a log.
 *
 * A member without a lease does not count (see Leases). So the smaller half of a cut cluster stops before the larger half takes
 * its keys over. Operations that come in between are refused, and retried.
 */
public final class Majority {
    private static final String NODE = "kvwal.node";

    private final ReadyGate gate;
    private final Leases leases;
    private volatile Set<String> expected;

    public Majority(ReadyGate gate, Leases leases) {
        this.gate = gate;
        this.leases = leases;
    }

    /** The members that count from now on. Before the first call nothing is refused. */
    public void expect(String[] names) {
        expected = Set.of(names);
    }

    /** Throws if this member may not serve together with `members`, before anything is read or written. */
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

    /** Why a client's request is refused, or waits, together with `members`; null if it is served. */
    public String whyNot(Collection<? extends Member> members) {
        try {
            check(members);
            return null;
        } catch (NotWritten | RetryableHazelcastException error) {
            return error.getMessage();
        }
    }

    private static NotWritten refusal(Collection<? extends Member> members, Set<String> wanted, int there) {
        Set<String> missing = new TreeSet<>(wanted);
        members.forEach(member -> missing.remove(member.getAttribute(NODE)));
        return new NotWritten("ClusterUnreachable: this half of the cluster has " + there + " of the " + wanted.size()
            + " members that are expected, which is not more than half (missing: " + String.join(", ", missing)
            + "); nothing was read or written. Ask a member of the other half, or bring the missing ones back.");
    }
}
