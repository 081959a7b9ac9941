package kvwal.transactions;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.spi.impl.NodeEngine;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import kvwal.transactions.steps.LockKeys;
import kvwal.transactions.steps.OwnerSteps;
import kvwal.transactions.steps.PartitionSteps;
import kvwal.transactions.steps.UnlockKeys;

/**
 * Locks of a transaction on all of its keys, taken by the member that expands it.
 *
 * The first try is for all partitions at once. If another transaction has one of the keys, this one holds nothing while it waits
 * for its first partition. Then it tries the others. Transactions of the same keys so wait in one place, and none waits for
 * another with a lock that the other needs.
 */
final class KeyLocks {
    private static final long PAUSE_NANOS = TimeUnit.MICROSECONDS.toNanos(500);
    private static final long MOST_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(16);
    /** How long it waits for others: it keeps a thread of the member meanwhile. */
    private static final long WAIT_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

    private final NodeEngine engine;
    private final String intent;
    private final Collection<Data> keys;

    KeyLocks(NodeEngine engine, String intent, Collection<Data> keys) {
        this.engine = engine;
        this.intent = intent;
        this.keys = keys;
    }

    /**
     * Locks all keys. Returns partitions and their timestamps in turn; null, without a lock, if others hold a key for some time.
     * After an error each key may be locked.
     */
    long[] take() {
        long until = System.nanoTime() + WAIT_NANOS;
        long[] answers = OwnerSteps.run(engine, new LockKeys(intent, keys));
        for (long pause = PAUSE_NANOS; isHeld(answers); pause = longer(pause)) {
            release(taken(answers));
            pause(pause);
            if (!takeFirst(until)) {
                return null;
            }
            answers = OwnerSteps.run(engine, new LockKeys(intent, keys));
        }
        return answers;
    }

    private boolean takeFirst(long until) {
        List<Data> first = PartitionSteps.byPartition(engine, keys).values().iterator().next();
        for (long pause = PAUSE_NANOS; System.nanoTime() - until < 0; pause = longer(pause)) {
            if (!isHeld(OwnerSteps.run(engine, new LockKeys(intent, first)))) {
                return true;
            }
            pause(pause);
        }
        return false;
    }

    private static long longer(long pause) {
        return Math.min(2 * pause, MOST_PAUSE_NANOS);
    }

    private static void pause(long most) {
        LockSupport.parkNanos(ThreadLocalRandom.current().nextLong(most));
    }

    private static boolean isHeld(long[] answers) {
        for (int i = 1; i < answers.length; i += 2) {
            if (answers[i] == LockKeys.HELD) {
                return true;
            }
        }
        return false;
    }

    private List<Data> taken(long[] answers) {
        List<Data> taken = new ArrayList<>();
        for (int i = 0; i < answers.length; i += 2) {
            if (answers[i + 1] != LockKeys.HELD) {
                taken.addAll(PartitionSteps.byPartition(engine, keys).get((int) answers[i]));
            }
        }
        return taken;
    }

    /** Releases the locks of these keys. Locks that it cannot release now are found later, see LeftLocks. */
    void release(Collection<Data> some) {
        if (!some.isEmpty()) {
            OwnerSteps.begin(engine, new UnlockKeys(intent, some)).exceptionally(error -> null).join();
        }
    }
}
