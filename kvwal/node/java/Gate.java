package kvwal.node;

/**
 * Closed until memory is recovered. Maps are "still loading" as long as it is: Hazelcast then lets every operation of a
 * client wait, and nobody sees a part of what was stored.
 */
public final class Gate {
    private boolean open;
    private boolean leaving;

    /** Memory is whole: let everybody in. */
    public synchronized void open() {
        open = true;
        notifyAll();
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

    synchronized void check() {
        if (!open) {
            throw new NotWritten("NotRecovered: this node has not loaded what its logs hold; nothing was read or written."
                + " Wait until /readyz says that it is ready.");
        }
    }
}
