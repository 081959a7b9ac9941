package kvwal.node;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import kvwal.backups.PendingChanges;
import kvwal.clock.OwnershipFence;
import kvwal.log.LogStore;
import kvwal.transactions.Transactions;

/**
 * Closed until memory is recovered. Maps are "still loading" as long as it is: Hazelcast then lets every operation of a
 * client wait, and nobody sees a part of what was stored.
 */
public final class ReadyGate {
    /** What a change has to pass besides. */
    public final OwnershipFence fence = new OwnershipFence();
    /** What may be known of changes. */
    public final PendingChanges pending = new PendingChanges();
    private final CompletableFuture<Void> recovered = new CompletableFuture<>();
    private boolean open;
    private boolean armed;
    private boolean leaving;
    private volatile String lost;
    /** What memory lost before it was known whether there was anything in it. */
    private String missed;

    /** Memory is whole: let everybody in. */
    public void open() {
        synchronized (this) {
            open = lost == null;
            if (!open) {
                return;
            }
        }
        recovered.complete(null);
    }

    /** Of the member that runs here. */
    public static ReadyGate of(HazelcastInstance instance) {
        return Transactions.of(instance).gate();
    }

    /** Whether memory was whole once: from then on `check` says who may come in. */
    public boolean isRecovered() {
        return recovered.isDone();
    }

    /**
     * For what a client asks of a map: throws while memory is loading. Hazelcast would try for minutes before it answers; so the
     * client hears at once, and tries again for as long as it was told to.
     */
    public static void checkLoaded(HazelcastInstance instance, String map) {
        if (LogStore.has(map) && !of(instance).isRecovered()) {
            throw new RetryableHazelcastException("Map " + map + " is still loading.");
        }
    }

    /** Done when memory is whole, failed if this node left before. */
    public Future<?> recovered() {
        return recovered;
    }

    /**
     * Memory is filled: what it loses from now on counts, although nobody is let in yet. Of a member that joined those that
     * had it filled already, `joins`, what it lost since it met them counts too.
     */
    public synchronized void arm(boolean joins) {
        armed = true;
        if (joins && missed != null) {
            lose(missed);
        }
        missed = null;
    }

    /** Memory is to be filled once more. */
    public synchronized void disarm() {
        armed = false;
        lost = open ? lost : null;
    }

    /** Memory has a hole, or is about to be given up: nobody may take what is missing for absent. `what` says why. */
    public synchronized void lose(String what) {
        if (open || armed && lost == null) {
            open = false;
            lost = what;
        } else if (!armed) {
            missed = what;
        }
    }

    /** This member was cut off, and takes the memory of others instead of its own: what was lost of that before is nothing to them. */
    public synchronized void giveUp(String why) {
        if (armed) {
            lose(why);
        } else {
            missed = null;
        }
    }

    /** Why memory is not whole any more, null if it is. */
    public String lost() {
        return lost;
    }

    /** For whoever would read memory. */
    public void checkWhole() {
        if (lost != null) {
            throw new NotWritten("NotRecovered: " + lost + "; nothing was read or written. Ask another member.");
        }
    }

    /** This node leaves before it was recovered: whoever waits must not wait for ever. */
    public void leave() {
        synchronized (this) {
            leaving = true;
        }
        recovered.completeExceptionally(notRecovered());
    }

    public synchronized boolean isOpen() {
        return open && !leaving;
    }

    /** Whoever comes too early is sent back by Hazelcast, and tries again. */
    public synchronized void check() {
        checkWhole();
        if (!open && !leaving) {
            throw new RetryableHazelcastException("NotRecovered: this member has not joined yet.");
        }
        if (!open) {
            throw notRecovered();
        }
    }

    private static NotWritten notRecovered() {
        return new NotWritten("NotRecovered: this node has not loaded what its logs hold; nothing was read or written."
            + " Wait until /readyz says that it is ready.");
    }
}
