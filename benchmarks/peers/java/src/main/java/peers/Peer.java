package peers;

import java.io.Closeable;
import java.io.IOException;
import java.util.List;

/** A log that a program writes to. One object serves all producers. */
interface Peer extends Closeable {
    /** Returns when all entries are durable. Each call is one transaction where the peer has transactions. */
    void put(int producer, List<Entry> entries) throws IOException;

    /** A queue takes `many` entries in one transaction. Returns when the take is durable. */
    default void take(int many) throws IOException {
        throw new IOException("this peer is no queue");
    }

    /** Reads back all that was written before, and returns the number of entries. Called once, before any put. */
    long recover() throws IOException;

    /** Writes the short form of all entries, where the peer has one. */
    default void compact() throws IOException {
    }
}
