package kvwal.clock;

import com.hazelcast.cluster.Member;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.internal.cluster.ClusterService;
import com.hazelcast.internal.partition.IPartitionService;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Set;

/**
 * Holds up the first change of a partition that this member newly owns, until its clock is ahead of whoever owned it before; and
 * the first change since a member went, which may have held up the clock.
 *
 * Hazelcast numbers the versions of a partition's owner and backups, and those of the list of members: a change passes while the
 * version is one for which the clock was advanced. Whoever advances it calls `await`, then looks up how far, advances, and calls
 * `clear`.
 */
public final class OwnershipFence {
    private static final int NONE = -1;

    private Node node;
    private volatile int[] cleared = {};
    /** A version of the list of members in which nobody is missing who was there since the clock was advanced. */
    private volatile int complete = NONE;
    private Set<Member> there = Set.of();
    private int[] seen = {};
    private Set<Member> seenThere = Set.of();
    private final BitSet owned = new BitSet();
    private boolean wanted;
    private boolean takenOver;
    private boolean seenTakenOver;
    private boolean closed;

    /**
     * Sends a change back, to be tried again by Hazelcast, unless the clock is ahead of the partition's owners before. It must not
     * wait here: a migration waits for it, and for the migration whoever asks how far to advance.
     */
    public void pass(Node own, int partition) {
        int[] versions = cleared;
        IPartitionService partitions = own.getPartitionService();
        boolean isCleared = partition < versions.length && versions[partition] == partitions.getPartition(partition, false).version();
        if (isCleared && isComplete(own.getClusterService())) {
            return;
        }
        want(own, !isCleared);
        throw new RetryableHazelcastException("This member has taken the partition over, or another one went: it advances its clock.");
    }

    private boolean isComplete(ClusterService members) {
        int version = members.getMemberListVersion();
        return version == complete || isComplete(version, members.getMembers());
    }

    private synchronized boolean isComplete(int version, Set<Member> now) {
        if (!now.containsAll(there)) {
            return false;
        }
        there = Set.copyOf(now);
        complete = version;
        return true;
    }

    private synchronized void want(Node own, boolean takesOver) {
        node = own;
        wanted = true;
        takenOver |= takesOver;
        notifyAll();
    }

    /** Waits until a change was sent back, and takes note of who owns what now; false once it is closed. */
    public synchronized boolean await() throws InterruptedException {
        while (!wanted && !closed) {
            wait();
        }
        wanted = false;
        seenTakenOver = takenOver;
        takenOver = false;
        if (closed) {
            return false;
        }
        seenThere = Set.copyOf(node.getClusterService().getMembers());
        IPartitionService partitions = node.getPartitionService();
        seen = new int[partitions.getPartitionCount()];
        for (int i = 0; i < seen.length; i++) {
            seen[i] = partitions.getPartition(i, false).version();
            if (partitions.getPartition(i, false).isLocal()) {
                owned.set(i);
            }
        }
        return true;
    }

    /** The partitions that this member owned at any `await` so far: a number whose bits they are, as hexadecimal digits. */
    public synchronized String owned() {
        BigInteger bits = BigInteger.ZERO;
        for (int i = owned.nextSetBit(0); i >= 0; i = owned.nextSetBit(i + 1)) {
            bits = bits.setBit(i);
        }
        return bits.toString(16);
    }

    /** Whether what the last `await` saw is a partition that was taken over: whoever had it has to have stopped before `clear`. */
    public synchronized boolean isTakeOver() {
        return seenTakenOver;
    }

    /** The clock is ahead of everybody who owned anything at the last `await`. */
    public synchronized void clear() {
        there = seenThere;
        complete = NONE;
        if (seenTakenOver) {
            cleared = Arrays.copyOf(seen, seen.length);
        }
    }

    /** Nobody advances the clock any more. */
    public synchronized void close() {
        closed = true;
        notifyAll();
    }
}
