package kvwal.transactions;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.logging.ILogger;
import com.hazelcast.map.IMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import kvwal.transactions.steps.IntentKey;

/**
 * Watch of a member for intents that it has to finish: those of members that left, and those that it could not finish itself. And
 * for locks that are left.
 */
public final class IntentWatch {
    private static final int LOOK_MILLIS = 250;
    /** Locks are looked at once a second. */
    private static final int LOOKS = 4;
    private static final long WARNING_NANOS = TimeUnit.MINUTES.toNanos(1);

    private final Transactions transactions;
    private final HazelcastInstance instance;
    private final LeftLocks leftLocks;
    private final ILogger logger;
    /** When this last warned of what it could not do, in nanoseconds. */
    private final Map<String, Long> warned = new HashMap<>();
    private int looks;

    private IntentWatch(HazelcastInstance instance) {
        this.instance = instance;
        this.transactions = Transactions.of(instance);
        this.leftLocks = new LeftLocks(instance);
        this.logger = instance.getLoggingService().getLogger(IntentWatch.class);
    }

    /** Begins to watch, whenever the member serves, for as long as it lives. To be called once for a member. */
    public static void start(HazelcastInstance instance) {
        Thread thread = new Thread(new IntentWatch(instance)::look, "kvwal.intents");
        thread.setDaemon(true);
        thread.start();
    }

    private void look() {
        try {
            while (instance.getLifecycleService().isRunning()) {
                try {
                    if (transactions.isServing()) {
                        lookOnce();
                    }
                } catch (HazelcastInstanceNotActiveException error) {
                    throw error;
                } catch (Error error) {
                    logger.severe("The watch for transactions that are left met a bug of this member. It goes on.", error);
                } catch (RuntimeException error) {
                    // This member may be in the smaller half: the others finish transactions, or this one does later.
                    logger.fine("This member may not look for transactions that are left now; it looks again.", error);
                }
                Thread.sleep(LOOK_MILLIS);
            }
        } catch (InterruptedException | HazelcastInstanceNotActiveException error) {
            logger.fine("This member has left: others look after transactions.");
        }
    }

    private void lookOnce() throws InterruptedException {
        warned.values().removeIf(last -> System.nanoTime() - last >= WARNING_NANOS);
        for (String key : abandoned()) {
            attempt("The transaction " + key + " cannot be finished", () -> finish(key));
        }
        if (++looks % LOOKS == 0) {
            for (Map.Entry<String, List<Data>> locks : leftLocks.old().entrySet()) {
                attempt("Locks of the transaction " + locks.getKey() + " cannot be looked at, or released,",
                    () -> leftLocks.release(locks.getKey(), locks.getValue()));
            }
        }
    }

    /** A step that is tried again. */
    private interface Step {
        void run() throws ExecutionException, InterruptedException;
    }

    /** Does a step for one transaction. If it fails, those for others are done all the same. */
    private void attempt(String failure, Step step) throws InterruptedException {
        try {
            step.run();
        } catch (HazelcastInstanceNotActiveException error) {
            throw error;
        } catch (RuntimeException | ExecutionException error) {
            // While a majority is missing each look fails: a line for each would fill the disk of the log.
            if (warned.putIfAbsent(failure, System.nanoTime()) == null) {
                logger.warning(failure + " now. This member goes on trying, and says so again after a minute: " + error);
            }
        }
    }

    /** Intents that this member owns and whose expander is no longer a member, and those that it could not finish itself. */
    private Set<String> abandoned() {
        Set<String> found = new TreeSet<>(transactions.left());
        if (transactions.hasIntents()) {
            Set<String> living = Transactions.living(instance);
            for (String key : Transactions.intents(instance).localKeySet()) {
                if (!living.contains(IntentKey.expander(key))) {
                    found.add(key);
                }
            }
        }
        return found;
    }

    private void finish(String key) {
        IMap<String, byte[]> intents = Transactions.intents(instance);
        byte[] changes = intents.get(key);
        if (changes != null) { // else it was never logged, or is finished
            Transactions.make(instance, key, new Changes(changes, 0));
            intents.delete(key);
        }
        transactions.left().remove(key);
    }
}
