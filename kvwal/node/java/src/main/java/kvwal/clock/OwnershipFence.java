package kvwal.clock;

import com.hazelcast.cluster.Member;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.internal.cluster.ClusterService;
import com.hazelcast.internal.partition.IPartitionService;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Set;

/**
 * Fence of a partition that this member newly owns: it refuses changes until this member's clock is ahead of the former owner's.
 * It also refuses the first change after a member left, because that member may have held the clock back.
 *
 * Hazelcast numbers the versions of each partition's replicas and of the member list. A change passes if the clock was advanced
 * for both versions. The thread that advances the clock calls `await`, finds out how far, advances, and calls `clear`.
 */
public final class OwnershipFence {
    private static final int NONE = -1;

    private Node node;
    private volatile int[] cleared = {};
    /** A version of the member list with every member that was there when the clock was last advanced. */
    private volatile int complete = NONE;
    private Set<Member> there = Set.of();
    private int[] seen = {};
    private Set<Member> seenThere = Set.of();
    private final BitSet owned = new BitSet();
    private boolean wanted;
    private boolean takenOver;
    private boolean seenTakenOver;
    private boolean closed;
    private volatile long lowWatermark;
    /** Greatest timestamp that a log of this member has given. Python writes it, 8 bytes at once. */
    private final ByteBuffer stamped = ByteBuffer.allocateDirect(Long.BYTES).order(ByteOrder.nativeOrder());

    /**
     * Refuses a change, for Hazelcast to retry, unless the clock is ahead of all former owners of its partition. It must not
     * block: a migration would wait for it, and the thread that advances the clock for the migration.
     */
    public void pass(Node own, int partition) {
        int[] versions = cleared;
        IPartitionService partitions = own.getPartitionService();
        boolean isCleared = partition < versions.length
            && versions[partition] == partitions.getPartition(partition, false).version();
        if (isCleared && isComplete(own.getClusterService())) {
            return;
        }
        want(own, !isCleared);
        throw new RetryableHazelcastException(
            "This member has taken the partition over, or another one went: it advances its clock.");
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

    /** Blocks until a change was refused, and notes the owners of all partitions; false once the fence is closed. */
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

    /** The partitions that this member owned at any `await` so far: the bits of a hexadecimal number. */
    public synchronized String owned() {
        BigInteger bits = BigInteger.ZERO;
        for (int i = owned.nextSetBit(0); i >= 0; i = owned.nextSetBit(i + 1)) {
            bits = bits.setBit(i);
        }
        return bits.toString(16);
    }

    /** Whether the last `await` saw a partition that was taken over: its former owner has to stop serving before `clear`. */
    public synchronized boolean isTakeOver() {
        return seenTakenOver;
    }

    /** This member stamps nothing below `timestamp` from now on; all that others stamped in its partitions is below it. */
    public synchronized void rise(long timestamp) {
        lowWatermark = Math.max(lowWatermark, timestamp);
    }

    /** The greatest timestamp of `rise`, 0 for none. */
    public long lowWatermark() {
        return lowWatermark;
    }

    /**
     * The place into which Python writes the greatest timestamp that a log of this member has given, before the log has the
     * entry. Not all entries come through BatchQueues.
     */
    public ByteBuffer stamped() {
        return stamped;
    }

    /** A timestamp that neither this member nor an owner before it has passed. */
    public long latest() {
        return Math.max(stamped.getLong(0), lowWatermark - 1);
    }

    /** The clock is ahead of every owner that the last `await` saw. */
    public synchronized void clear() {
        there = seenThere;
        complete = NONE;
        if (seenTakenOver) {
            cleared = Arrays.copyOf(seen, seen.length);
        }
    }

    /** The clock is not advanced any more. */
    public synchronized void close() {
        closed = true;
        notifyAll();
    }
}
