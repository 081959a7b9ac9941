package kvwal.log;

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
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import kvwal.codec.EntryCodec;

/**
 * Queues between the threads of Hazelcast that write and the event loop of Python that takes their entries, one batch at a time.
 * A byte in a pipe wakes the loop.
 *
 * Each business has one queue with at most one batch under way; entries that arrive meanwhile form the next batch. So a slow log
 * delays its own writers only, and a fast disk gets groups as large as the number of waiting writers.
 */
public final class BatchQueues {
    private static final int HEAD = 5;
    private static final long NOTHING = -1;
    private static final long END = -2;
    private static final String CLOSED = "StoreClosed: this node is leaving; this was not written. Write through another one.";

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition batchAnswered = lock.newCondition();
    private final ArrayDeque<BatchQueue> ready = new ArrayDeque<>();
    private final Map<Integer, BatchQueue> all = new HashMap<>();
    /** By business, a timestamp that is not below that of any acknowledged entry which came through these queues. */
    private final Map<String, Long> timestamps = new ConcurrentHashMap<>();
    private int opened;
    private final ByteBuffer batch = ByteBuffer.allocateDirect(HEAD + PendingEntry.MAX_BYTES);
    private int underWay;
    private boolean closed;
    private OutputStream wakeup;
    /** Whether the loop found no batch, and waits for a byte in the pipe. */
    private boolean asleep;

    /** A new queue of one business, with a number of its own. */
    public BatchQueue open(String business) {
        lock.lock();
        try {
            BatchQueue queue = new BatchQueue(opened++, business, lock.newCondition());
            all.put(queue.number, queue);
            return queue;
        } finally {
            lock.unlock();
        }
    }

    /** Forgets an empty queue, whose map was destroyed. Threads may still send to it. */
    void release(BatchQueue queue) {
        lock.lock();
        try {
            if (!queue.busy && queue.next.isEmpty()) {
                all.remove(queue.number);
            }
        } finally {
            lock.unlock();
        }
    }

    /** The business of the queue with this number. */
    public String business(int number) {
        lock.lock();
        try {
            return all.get(number).business;
        } finally {
            lock.unlock();
        }
    }

    /** Returns when the entry is in the log; throws NotWritten with the log's own message if it is not. */
    void send(BatchQueue queue, byte[] entry) {
        sendAndWait(queue, List.of(entry));
    }

    /** As `send` of all together. Within a step it returns at once: the step's PendingAppend sends the entries at its end. */
    public void send(BatchQueue queue, List<byte[]> entries) {
        PendingAppend append = PendingAppend.current();
        if (append == null) {
            sendAndWait(queue, entries);
        } else {
            append.hold(this::putAll, queue, PendingEntry.of(entries, append::answered));
        }
    }

    private void sendAndWait(BatchQueue queue, List<byte[]> entries) {
        Thread writer = Thread.currentThread();
        List<PendingEntry> pending = PendingEntry.of(entries, () -> LockSupport.unpark(writer));
        putAll(queue, pending);
        PendingEntry.await(pending);
    }

    private void putAll(BatchQueue queue, List<PendingEntry> entries) {
        lock.lock();
        try {
            for (PendingEntry entry : entries) {
                while (!closed && queue.bytes + entry.bytes.length > PendingEntry.MAX_BYTES) {
                    queue.notFull.awaitUninterruptibly();
                }
                put(queue, entry);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Sends entries without blocking: `writer` awaits them. Null if the queue has no room for all of them now. */
    public List<PendingEntry> post(BatchQueue queue, List<byte[]> entries, Thread writer) {
        int bytes = entries.stream().mapToInt(entry -> entry.length).sum();
        List<PendingEntry> pending = PendingEntry.of(entries, () -> LockSupport.unpark(writer));
        lock.lock();
        try {
            if (queue.bytes > 0 && queue.bytes + bytes > PendingEntry.MAX_BYTES) {
                return null;
            }
            pending.forEach(entry -> put(queue, entry));
        } finally {
            lock.unlock();
        }
        return pending;
    }

    private void put(BatchQueue queue, PendingEntry entry) {
        if (closed) {
            entry.answer(CLOSED, 0);
            return;
        }
        queue.next.add(entry);
        queue.bytes += entry.bytes.length;
        if (!queue.busy && queue.next.size() == 1) {
            all.putIfAbsent(queue.number, queue);
            ready.add(queue);
            wake();
        }
    }

    private void wake() {
        if (asleep) {
            asleep = false;
            try {
                wakeup.write(0);
            } catch (IOException error) {
                throw new UncheckedIOException("nobody takes what is to be logged", error);
            }
        }
    }

    /** The loop waits for a byte in this pipe. */
    public void wakeBy(String path) throws IOException {
        wakeup = new FileOutputStream(path);
    }

    /** The last timestamp in the log of a business of which a writer may have heard; 0 if none has come through these queues. */
    public long timestamp(String business) {
        return timestamps.getOrDefault(business, 0L);
    }

    /** Returns true when the log has answered all entries that were sent before this call, false after `millis`. */
    boolean settle(long millis) throws InterruptedException {
        long left = TimeUnit.MILLISECONDS.toNanos(millis);
        lock.lock();
        try {
            Map<BatchQueue, Long> sent = new HashMap<>();
            all.values().forEach(queue -> sent.put(queue, queue.sent()));
            while (left > 0 && isUnanswered(sent)) {
                left = batchAnswered.awaitNanos(left);
            }
            return !isUnanswered(sent);
        } finally {
            lock.unlock();
        }
    }

    private static boolean isUnanswered(Map<BatchQueue, Long> sent) {
        return sent.entrySet().stream().anyMatch(each -> each.getKey().answered < each.getValue());
    }

    /** The buffer into which `take` puts a batch; valid until the next `take`. */
    public ByteBuffer handed() {
        return batch;
    }

    /**
     * Puts the next batch into the buffer; returns the number of its queue and its size as number << 32 | size. NOTHING if there
     * is no batch yet: a byte in the pipe will announce one. END if there will be no more.
     */
    public long take() {
        BatchQueue queue;
        lock.lock();
        try {
            if (ready.isEmpty()) {
                asleep = !closed || underWay > 0;
                return asleep ? NOTHING : END;
            }
            queue = ready.remove();
            List<PendingEntry> empty = queue.underWay;
            queue.underWay = queue.next;
            queue.next = empty;
            queue.bytes = 0;
            queue.busy = true;
            underWay++;
            queue.notFull.signalAll();
        } finally {
            lock.unlock();
        }
        batch.clear().position(HEAD);
        for (PendingEntry entry : queue.underWay) {
            batch.put(entry.bytes);
        }
        EntryCodec.putHead(batch, 0, queue.underWay.size());
        return (long) queue.number << 32 | batch.position();
    }

    /**
     * The batch of this queue is in the log, with this timestamp; or, with an error, is not. Wakes the writers. Returns whether
     * to `take` again: the pipe announces nothing to the loop's own thread.
     */
    public boolean complete(int number, String error, long timestamp) {
        List<PendingEntry> done;
        boolean more;
        lock.lock();
        try {
            BatchQueue queue = all.get(number);
            done = queue.underWay;
            queue.underWay = new ArrayList<>();
            queue.busy = false;
            queue.answered++;
            underWay--;
            batchAnswered.signalAll();
            timestamps.merge(queue.business, timestamp, Math::max);
            if (!queue.next.isEmpty()) {
                ready.add(queue);
            }
            more = closed || !ready.isEmpty();
            asleep &= !more;
        } finally {
            lock.unlock();
        }
        for (PendingEntry entry : done) {
            entry.answer(error, timestamp);
        }
        return more;
    }

    /** Refuses new entries. `take` still returns those that are queued, then END. */
    public void close() {
        lock.lock();
        try {
            closed = true;
            wake();
            for (BatchQueue queue : all.values()) {
                queue.notFull.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }
}
