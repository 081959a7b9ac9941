package kvwal.transactions;

import com.hazelcast.core.HazelcastInstance;
import java.util.concurrent.TimeUnit;
import kvwal.node.MemoryLimit;

/** Conditional transactions that this member makes for itself, not for a client that sent one. */
public final class OwnTransaction {
    private static final String ID = "0".repeat(32);

    private OwnTransaction() { }

    /**
     * Makes all changes of a block, or none, if each guard has the value that the block `conditions` says. The answer is the name
     * of a Transactions.Outcome and, after a space, the timestamp: see Transactions.make. It locks keys for `millis` at most
     * before it writes.
     */
    public static String run(HazelcastInstance instance, String map, byte[] changes, byte[] conditions, long millis) {
        Changes found = new Changes(changes, 0);
        found.takeRoom(MemoryLimit.of(instance));
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        Transactions.Answer answer = Transactions.of(instance).runIf(instance, ID, map, found, conditions, until);
        return answer.outcome().name() + " " + answer.timestamp();
    }
}
