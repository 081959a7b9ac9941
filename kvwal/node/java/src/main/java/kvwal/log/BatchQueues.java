package kvwal.log;

import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import kvwal.codec.EntryCodec;
import kvwal.node.NotWritten;

/**
 * Hands what many threads store over to the event loop of Python that takes it, a whole batch at a time. A byte in a pipe wakes it.
 *
 * Each business has a mailbox, and one batch of it at most is under way: what comes meanwhile is the next one. So a slow log
 * holds up nobody but its own writers, and a fast disk sees groups as large as there are writers waiting.
 */
public final class BatchQueues {
    /** Bytes of a batch at most: what one block of the log holds. */
    static final int MOST = 5 << 20;
    private static final int HEAD = 5;
    private static final long NOTHING = -1;
    private static final long END = -2;
    /** The others could not be told of the time yet: nothing was written, and it is worth another try. */
    private static final String AGAIN = "ClusterUnreachable:";
    private static final String CLOSED = "StoreClosed: this node is leaving; this was not written. Write through another one.";

    private final ReentrantLock lock = new ReentrantLock();
    private final ArrayDeque<BatchQueue> ready = new ArrayDeque<>();
    private final Map<Integer, BatchQueue> all = new HashMap<>();
    private int opened;
    private final ByteBuffer handed = ByteBuffer.allocateDirect(HEAD + MOST);
    private int underWay;
    private boolean closed;
    private OutputStream bell;
    /** Whether the taker found nothing, and waits for the bell. */
    private boolean asleep;

    /** What waits for one business. */
    public static final class BatchQueue {
        final int number;
        final String business;
        final Condition notFull;
        List<PendingEntry> waiting = new ArrayList<>();
        List<PendingEntry> underWay = new ArrayList<>();
        int bytes;
        boolean busy;

        BatchQueue(int number, String business, Condition notFull) {
            this.number = number;
            this.business = business;
            this.notFull = notFull;
        }
    }

    /** An entry on its way to the log, and who is told when it is there. */
    public static final class PendingEntry {
        final byte[] entry;
        final Runnable told;
        String error;
        volatile boolean answered;

        PendingEntry(byte[] entry, Runnable told) {
            this.entry = entry;
            this.told = told;
        }

        void answer(String with) {
            error = with;
            answered = true;
            told.run();
        }
    }

    /** A mailbox of one business; its number is its own. */
    public BatchQueue open(String business) {
        lock.lock();
        try {
            BatchQueue box = new BatchQueue(opened++, business, lock.newCondition());
            all.put(box.number, box);
            return box;
        } finally {
            lock.unlock();
        }
    }

    /** Its map was destroyed: it is forgotten, unless somebody has sent to it meanwhile. Whoever still sends to it may. */
    void release(BatchQueue box) {
        lock.lock();
        try {
            if (!box.busy && box.waiting.isEmpty()) {
                all.remove(box.number);
            }
        } finally {
            lock.unlock();
        }
    }

    /** The business of a mailbox, for the taker. */
    public String business(int number) {
        lock.lock();
        try {
            return all.get(number).business;
        } finally {
            lock.unlock();
        }
    }

    /** Returns when the entry is in the log; throws NotWritten with the log's own words if it is not. */
    void send(BatchQueue box, byte[] entry) {
        Thread writer = Thread.currentThread();
        List<PendingEntry> letters = letters(List.of(entry), () -> LockSupport.unpark(writer));
        putAll(box, letters);
        await(letters);
    }

    /** As `send` of all at once; within a step that can wait for them it returns at once, and they are sent at its end. */
    public void send(BatchQueue box, List<byte[]> entries) {
        PendingAppend waiting = PendingAppend.here();
        if (waiting != null) {
            waiting.hold(this, box, letters(entries, waiting::answered));
            return;
        }
        Thread writer = Thread.currentThread();
        List<PendingEntry> letters = letters(entries, () -> LockSupport.unpark(writer));
        putAll(box, letters);
        await(letters);
    }

    /** Letters that come to a closed mailbox are answered so. */
    void putAll(BatchQueue box, List<PendingEntry> letters) {
        lock.lock();
        try {
            for (PendingEntry letter : letters) {
                while (!closed && box.bytes + letter.entry.length > MOST) {
                    box.notFull.awaitUninterruptibly();
                }
                put(box, letter);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Sends entries without waiting: `writer` awaits the letters. Null if they are more than there is room for now. */
    public List<PendingEntry> post(BatchQueue box, List<byte[]> entries, Thread writer) {
        int bytes = entries.stream().mapToInt(entry -> entry.length).sum();
        List<PendingEntry> letters = letters(entries, () -> LockSupport.unpark(writer));
        lock.lock();
        try {
            if (box.bytes > 0 && box.bytes + bytes > MOST) {
                return null;
            }
            letters.forEach(letter -> put(box, letter));
        } finally {
            lock.unlock();
        }
        return letters;
    }

    private static List<PendingEntry> letters(List<byte[]> entries, Runnable told) {
        for (byte[] entry : entries) {
            if (entry.length > MOST) {
                throw new NotWritten("TooLarge: an entry of " + entry.length + " bytes is above the " + MOST + " that one block"
                    + " holds; nothing was written. Keep large values elsewhere and store where they are.");
            }
        }
        return entries.stream().map(entry -> new PendingEntry(entry, told)).toList();
    }

    private void put(BatchQueue box, PendingEntry letter) {
        if (closed) {
            letter.answer(CLOSED);
            return;
        }
        box.waiting.add(letter);
        box.bytes += letter.entry.length;
        if (!box.busy && box.waiting.size() == 1) {
            all.putIfAbsent(box.number, box);
            ready.add(box);
            wake();
        }
    }

    private void wake() {
        if (asleep) {
            asleep = false;
            try {
                bell.write(0);
            } catch (IOException error) {
                throw new UncheckedIOException("nobody takes what is to be logged", error);
            }
        }
    }

    /** Returns when all are in the log; throws NotWritten with the log's own words for the first that is not. */
    public static void await(List<PendingEntry> letters) {
        boolean interrupted = false;
        for (PendingEntry letter : letters) {
            while (!letter.answered) {
                LockSupport.park(letter);
                interrupted |= Thread.interrupted();
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        check(letters);
    }

    /** All are answered. Throws as `await` does. */
    static void check(List<PendingEntry> letters) {
        for (PendingEntry letter : letters) {
            if (!letter.answered) {
                throw new NotWritten("CommitUnknown: this node has a bug, and is told so in its log; look whether it was written.");
            }
            if (letter.error != null) {
                throw letter.error.startsWith(AGAIN) ? new RetryableHazelcastException(letter.error) : new NotWritten(letter.error);
            }
        }
    }

    /** The taker waits until a byte is written to this file. */
    public void wakeBy(String path) throws IOException {
        bell = new FileOutputStream(path);
    }

    /** Where `take` puts a batch: valid until the next call of it. */
    public ByteBuffer handed() {
        return handed;
    }

    /**
     * Puts a batch into `handed`, and returns its mailbox's number and its size: number << 32 | size. NOTHING if there is none yet:
     * the bell will ring; END if there will be none.
     */
    public long take() {
        BatchQueue box;
        lock.lock();
        try {
            if (ready.isEmpty()) {
                asleep = !closed || underWay > 0;
                return asleep ? NOTHING : END;
            }
            box = ready.remove();
            List<PendingEntry> empty = box.underWay;
            box.underWay = box.waiting;
            box.waiting = empty;
            box.bytes = 0;
            box.busy = true;
            underWay++;
            box.notFull.signalAll();
        } finally {
            lock.unlock();
        }
        handed.clear().position(HEAD);
        for (PendingEntry letter : box.underWay) {
            handed.put(letter.entry);
        }
        EntryCodec.putHead(handed, 0, box.underWay.size());
        return (long) box.number << 32 | handed.position();
    }

    /**
     * The batch of this mailbox is in the log, or, with an error, is not. Wakes those who wait for it. Whether to `take` again: for
     * the taker's own thread no bell rings.
     */
    public boolean complete(int number, String error) {
        List<PendingEntry> done;
        boolean more;
        lock.lock();
        try {
            BatchQueue box = all.get(number);
            done = box.underWay;
            box.underWay = new ArrayList<>();
            box.busy = false;
            underWay--;
            if (!box.waiting.isEmpty()) {
                ready.add(box);
            }
            more = closed || !ready.isEmpty();
            asleep &= !more;
        } finally {
            lock.unlock();
        }
        for (PendingEntry letter : done) {
            letter.answer(error);
        }
        return more;
    }

    /** Takes nothing more. What waits is still handed over; then `take` ends. */
    public void close() {
        lock.lock();
        try {
            closed = true;
            wake();
            for (BatchQueue box : all.values()) {
                box.notFull.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }
}
