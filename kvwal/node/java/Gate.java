package kvwal.node;

import com.hazelcast.spi.exception.RetryableHazelcastException;

/**
 * Closed until memory is recovered. Maps are "still loading" as long as it is: Hazelcast then lets every operation of a
 * client wait, and nobody sees a part of what was stored.
 */
public final class Gate {
    private boolean open;
    private boolean leaving;
    private String lost;

    /** Memory is whole: let everybody in. */
    public synchronized void open() {
        open = true;
        notifyAll();
    }

    /** Memory has a hole: nobody may take what is missing for absent. */
    synchronized void lose(String what) {
        if (open) {
            open = false;
            lost = what;
        }
    }

    /** What was lost from memory, null if nothing was. */
    public synchronized String lost() {
        return lost;
    }

    /** This node leaves before it was recovered: whoever waits must not wait for ever. */
    public synchronized void leave() {
        leaving = true;
        notifyAll();
    }

    synchronized void await() {
        while (!open && !leaving) {
            try {
                wait();
            } catch (InterruptedException error) {
                leaving = true;
                Thread.currentThread().interrupt();
            }
        }
        check();
    }

    synchronized boolean isOpen() {
        return open && !leaving;
    }

    /** Whoever comes too early is sent back by Hazelcast, and tries again. */
    synchronized void check() {
        if (!open && !leaving && lost == null) {
            throw new RetryableHazelcastException("NotRecovered: this member has not joined yet.");
        }
        if (!open) {
            throw new NotWritten("NotRecovered: this node has not loaded what its logs hold; nothing was read or written."
                + " Wait until /readyz says that it is ready.");
        }
    }
}
