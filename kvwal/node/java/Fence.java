package kvwal.node;

import com.hazelcast.internal.partition.IPartitionService;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.BitSet;

/**
 * Holds up the first change of a partition that this member newly owns, until its clock is ahead of whoever owned it before.
 *
 * Hazelcast numbers the versions of a partition's owner and backups: a change passes while the version is one for which
 * the clock was advanced. Whoever advances it calls `await`, then looks up how far, advances, and calls `clear`.
 */
public final class Fence {
    private IPartitionService service;
    private volatile int[] cleared = {};
    private int[] seen = {};
    private final BitSet owned = new BitSet();
    private boolean wanted;
    private boolean closed;

    /**
     * Sends a change back, to be tried again by Hazelcast, unless the clock is ahead of the partition's owners before. It must not
     * wait here: a migration waits for it, and for the migration whoever asks how far to advance.
     */
    void pass(IPartitionService partitions, int partition) {
        if (isCleared(partitions, partition)) {
            return;
        }
        want(partitions);
        throw new RetryableHazelcastException("This member has just taken the partition over, and advances its clock.");
    }

    private boolean isCleared(IPartitionService partitions, int partition) {
        int[] versions = cleared;
        return partition < versions.length && versions[partition] == partitions.getPartition(partition, false).version();
    }

    private synchronized void want(IPartitionService partitions) {
        service = partitions;
        wanted = true;
        notifyAll();
    }

    /** Waits until a change was sent back, and takes note of who owns what now; false once it is closed. */
    public synchronized boolean await() throws InterruptedException {
        while (!wanted && !closed) {
            wait();
        }
        wanted = false;
        if (closed) {
            return false;
        }
        seen = new int[service.getPartitionCount()];
        for (int i = 0; i < seen.length; i++) {
            seen[i] = service.getPartition(i, false).version();
            if (service.getPartition(i, false).isLocal()) {
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

    /** The clock is ahead of everybody who owned anything at the last `await`. */
    public synchronized void clear() {
        cleared = Arrays.copyOf(seen, seen.length);
    }

    /** Nobody advances the clock any more. */
    public synchronized void close() {
        closed = true;
        notifyAll();
    }
}
