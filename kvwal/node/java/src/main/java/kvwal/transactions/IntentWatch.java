package kvwal.transactions;

import com.hazelcast.cluster.Member;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.logging.ILogger;
import com.hazelcast.map.IMap;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import kvwal.node.MemberQuery;

/** Watch of a member for intents that it has to finish: those of members that left, and those that it could not finish itself. */
final class IntentWatch {
    private static final int LOOK_MILLIS = 250;
    private static final long WARNING_NANOS = TimeUnit.MINUTES.toNanos(1);
    /** Answer of a member that does not know yet which changes are applied. */
    private static final byte[] OPEN = {};

    private final Transactions transactions;
    /** When this last warned of an intent that it could not finish, in nanoseconds. */
    private final Map<String, Long> warned = new HashMap<>();

    private IntentWatch(Transactions transactions) {
        this.transactions = transactions;
    }

    /** Begins to watch, if the member does not watch already; it goes on for as long as the member lives. */
    static void start(HazelcastInstance instance) {
        if (!Transactions.of(instance).beginWatch()) {
            return;
        }
        IntentWatch watch = new IntentWatch(Transactions.of(instance));
        Thread thread = new Thread(() -> watch.look(instance), "kvwal.intents");
        thread.setDaemon(true);
        thread.start();
    }

    private void look(HazelcastInstance instance) {
        ILogger logger = instance.getLoggingService().getLogger(IntentWatch.class);
        try {
            while (instance.getLifecycleService().isRunning()) {
                try {
                    if (transactions.isServing()) {
                        finishAll(instance, logger);
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

    private void finishAll(HazelcastInstance instance, ILogger logger) throws InterruptedException {
        Set<String> found = abandoned(instance);
        warned.keySet().retainAll(found);
        for (String key : found) {
            tryToFinish(instance, key, logger);
        }
    }

    private void tryToFinish(HazelcastInstance instance, String key, ILogger logger) throws InterruptedException {
        try {
            finish(instance, key);
        } catch (HazelcastInstanceNotActiveException error) {
            throw error;
        } catch (RuntimeException | ExecutionException error) {
            // While a majority is missing each look fails: a line for each would fill the disk of the log.
            Long last = warned.get(key);
            if (last == null || System.nanoTime() - last >= WARNING_NANOS) {
                warned.put(key, System.nanoTime());
                logger.warning("The transaction " + key + " cannot be finished now. This member goes on trying, and says so"
                    + " again after a minute: " + error);
            }
        }
    }

    /** Intents that this member owns and whose expander is no longer a member, and those that it could not finish itself. */
    private Set<String> abandoned(HazelcastInstance instance) {
        Set<String> living = Transactions.living(instance);
        Set<String> found = new TreeSet<>(transactions.left());
        for (String key : Transactions.intents(instance).localKeySet()) {
            if (!living.contains(IntentKey.expander(key))) {
                found.add(key);
            }
        }
        return found;
    }

    private void finish(HazelcastInstance instance, String key) throws ExecutionException, InterruptedException {
        String own = Transactions.own(instance);
        BitSet done = new BitSet();
        Set<Member> members = instance.getCluster().getMembers();
        List<byte[]> answers = MemberQuery.ofAll(instance, members, new TakeOverIntent(key, own), OPEN);
        // One that went meanwhile may have known of changes that others left to it: they know better when they are asked again.
        if (answers.size() < members.size() || answers.contains(OPEN)) {
            return;
        }
        answers.forEach(found -> done.or(BitSet.valueOf(found)));
        IMap<String, byte[]> intents = Transactions.intents(instance);
        byte[] changes = intents.remove(key, Transactions.UNDECIDED) ? null : intents.get(key);
        // Null: it was never logged, was undecided, or is finished.
        if (changes == null || transactions.apply(instance, key, own, changes, done, Guards.locks(instance, key))) {
            transactions.left().add(key); // `apply` has removed it, and a release that fails has to be tried again
            Guards.releaseAll(instance, key);
            transactions.left().remove(key);
        }
    }
}
