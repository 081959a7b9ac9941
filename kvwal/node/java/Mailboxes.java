package kvwal.node;

import com.hazelcast.spi.exception.RetryableHazelcastException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Hands what many threads store over to the one thread of Python that takes it, a whole batch at a time.
 *
 * Each business has a mailbox, and one batch of it at most is under way: what comes meanwhile is the next one. So a slow log
 * holds up nobody but its own writers, and a fast disk sees groups as large as there are writers waiting.
 */
public final class Mailboxes {
    /** Bytes of a batch at most: what one block of the log holds. */
    static final int MOST = 5 << 20;
    private static final int HEAD = 5;
    /** The others could not be told of the time yet: nothing was written, and it is worth another try. */
    private static final String AGAIN = "ClusterUnreachable:";

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition notEmpty = lock.newCondition();
    private final ArrayDeque<Mailbox> ready = new ArrayDeque<>();
    private final List<Mailbox> all = new ArrayList<>();
    private final ByteBuffer handed = ByteBuffer.allocateDirect(HEAD + MOST);
    private int underWay;
    private boolean closed;

    /** What waits for one business. */
    static final class Mailbox {
        final int number;
        final String business;
        final Condition notFull;
        List<Letter> waiting = new ArrayList<>();
        List<Letter> underWay = new ArrayList<>();
        int bytes;
        boolean busy;

        Mailbox(int number, String business, Condition notFull) {
            this.number = number;
            this.business = business;
            this.notFull = notFull;
        }
    }

    /** An entry, and the thread that waits until it is in the log. */
    static final class Letter {
        final byte[] entry;
        final Thread writer;
        String error;
        volatile boolean answered;

        Letter(byte[] entry, Thread writer) {
            this.entry = entry;
            this.writer = writer;
        }

        void answer(String with) {
            error = with;
            answered = true;
            LockSupport.unpark(writer);
        }
    }

    /** The mailbox of one business; its number is the index in the order of calls. */
    Mailbox open(String business) {
        lock.lock();
        try {
            Mailbox box = new Mailbox(all.size(), business, lock.newCondition());
            all.add(box);
            return box;
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
    void send(Mailbox box, byte[] entry) {
        if (entry.length > MOST) {
            throw new NotWritten("TooLarge: an entry of " + entry.length + " bytes is above the " + MOST + " that one block"
                + " holds; nothing was written. Keep large values elsewhere and store where they are.");
        }
        Letter letter = new Letter(entry, Thread.currentThread());
        lock.lock();
        try {
            while (!closed && box.bytes + entry.length > MOST) {
                box.notFull.awaitUninterruptibly();
            }
            put(box, letter);
        } finally {
            lock.unlock();
        }
        await(letter);
    }

    /** Sends entries without waiting: `writer` awaits each of the letters. Null if they are more than there is room for now. */
    List<Letter> post(Mailbox box, List<byte[]> entries, Thread writer) {
        List<Letter> letters = new ArrayList<>();
        int bytes = 0;
        for (byte[] entry : entries) {
            letters.add(new Letter(entry, writer));
            bytes += entry.length;
        }
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

    private void put(Mailbox box, Letter letter) {
        if (closed) {
            throw new NotWritten("StoreClosed: this node is leaving; nothing was written. Write through another one.");
        }
        box.waiting.add(letter);
        box.bytes += letter.entry.length;
        if (!box.busy && box.waiting.size() == 1) {
            ready.add(box);
            notEmpty.signal();
        }
    }

    /** Returns when it is in the log; throws NotWritten with the log's own words if it is not. */
    static void await(Letter letter) {
        boolean interrupted = false;
        while (!letter.answered) {
            LockSupport.park(letter);
            interrupted |= Thread.interrupted();
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        if (letter.error != null) {
            throw letter.error.startsWith(AGAIN) ? new RetryableHazelcastException(letter.error) : new NotWritten(letter.error);
        }
    }

    /** Where `take` puts a batch: valid until the next call of it. */
    public ByteBuffer handed() {
        return handed;
    }

    /** Waits for a batch, puts it into `handed`, and returns its mailbox's number and its size: number << 32 | size; -1 at the end. */
    public long take() {
        Mailbox box;
        lock.lock();
        try {
            while (ready.isEmpty()) {
                if (closed && underWay == 0) {
                    return -1;
                }
                notEmpty.awaitUninterruptibly();
            }
            box = ready.remove();
            List<Letter> empty = box.underWay;
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
        for (Letter letter : box.underWay) {
            handed.put(letter.entry);
        }
        Entries.putHead(handed, 0, box.underWay.size());
        return (long) box.number << 32 | handed.position();
    }

    /** The batch of this mailbox is in the log, or, with an error, is not. Wakes those who wait for it. */
    public void complete(int number, String error) {
        List<Letter> done;
        lock.lock();
        try {
            Mailbox box = all.get(number);
            done = box.underWay;
            box.underWay = new ArrayList<>();
            box.busy = false;
            underWay--;
            if (!box.waiting.isEmpty()) {
                ready.add(box);
            }
            if (closed || !ready.isEmpty()) {
                notEmpty.signal();
            }
        } finally {
            lock.unlock();
        }
        for (Letter letter : done) {
            letter.answer(error);
        }
    }

    /** Takes nothing more. What waits is still handed over; then `take` ends. */
    public void close() {
        lock.lock();
        try {
            closed = true;
            notEmpty.signalAll();
            for (Mailbox box : all) {
                box.notFull.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }
}
