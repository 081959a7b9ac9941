package kvwal.node;

import com.hazelcast.config.Config;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;

/**
 * Readiness of this member: closed until its memory holds everything that the logs hold, and closed again when memory loses a
 * part.
 *
 * While the gate is closed for the first time, maps are "still loading" for Hazelcast: it makes every operation of a client wait.
 */
public final class ReadyGate {
    private static final String SERVICE = "kvwal.gate";

    private final CompletableFuture<Void> recovered = new CompletableFuture<>();
    private boolean open;
    private boolean armed;
    private boolean leaving;
    private volatile String lost;
    /** Why memory lost a part before it was filled. */
    private String missed;

    /** Make this the gate of the member with this configuration. */
    public void configure(Config config) {
        config.getUserContext().put(SERVICE, this);
    }

    /** The gate of a member. */
    public static ReadyGate of(HazelcastInstance instance) {
        return (ReadyGate) instance.getUserContext().get(SERVICE);
    }

    /** Memory is whole: serve from now on. */
    public void open() {
        synchronized (this) {
            open = lost == null;
            if (!open) {
                return;
            }
        }
        recovered.complete(null);
    }

    /** Whether the gate has been open once: from then on `check` decides. */
    public boolean isRecovered() {
        return recovered.isDone();
    }

    /** Done when the gate opens for the first time, failed if this node leaves before. */
    public Future<?> recovered() {
        return recovered;
    }

    /**
     * Memory is filled, and the gate still closed: what memory loses from now on counts. `joins`: this member joined members
     * whose memory was filled already, so what it lost since it met them counts too.
     */
    public synchronized void arm(boolean joins) {
        armed = true;
        if (joins && missed != null) {
            lose(missed);
        }
        missed = null;
    }

    /** Memory is about to be filled again. */
    public synchronized void disarm() {
        armed = false;
        lost = open ? lost : null;
    }

    /** Memory has a hole, or is about to be given up, because of `why`: a key that is not in memory may exist. */
    public synchronized void lose(String why) {
        if (open || armed && lost == null) {
            open = false;
            lost = why;
        } else if (!armed) {
            missed = why;
        }
    }

    /** This member was cut off, and takes over the memory of the others: what its own memory lost before no longer counts. */
    public synchronized void giveUp(String why) {
        if (armed) {
            lose(why);
        } else {
            missed = null;
        }
    }

    /** Why memory is no longer whole; null if it is whole. */
    public String lost() {
        return lost;
    }

    /** Throws if memory has lost a part. */
    public void checkWhole() {
        if (lost != null) {
            throw new NotWritten("NotRecovered: " + lost + "; nothing was read or written. Ask another member.");
        }
    }

    /** This node leaves: a caller that waits for `recovered` stops waiting. */
    public void leave() {
        synchronized (this) {
            leaving = true;
        }
        recovered.completeExceptionally(notRecovered());
    }

    /** Whether this member serves. */
    public synchronized boolean isOpen() {
        return open && !leaving;
    }

    /** Throws unless this member serves. Hazelcast tries again what comes before the gate opens. */
    public synchronized void check() {
        checkWhole();
        if (!open && !leaving) {
            throw new RetryableHazelcastException("NotRecovered: this member has not joined yet.");
        }
        if (!open) {
            throw notRecovered();
        }
    }

    /** Error for a client that asks for a map before memory is filled. */
    public static RetryableHazelcastException stillLoading(String map) {
        return new RetryableHazelcastException("Map " + map + " is still loading.");
    }

    /** Error for a client that asks for the names of all maps before memory is filled: most are not known yet. */
    public static RetryableHazelcastException namesStillLoading() {
        return new RetryableHazelcastException("The list of maps is still loading.");
    }

    private static NotWritten notRecovered() {
        return new NotWritten("NotRecovered: this node has not loaded what its logs hold; nothing was read or written."
            + " Wait until /readyz says that it is ready.");
    }
}
