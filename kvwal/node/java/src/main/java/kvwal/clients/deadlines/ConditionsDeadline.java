package kvwal.clients.deadlines;

/**
 * Deadline of a predicate of many conditions: AND and OR, and those inside of each other. Each entry costs as many comparisons,
 * so a request of some kilobytes could take hours. Predicates of few conditions are not timed: their scan may take as long as it
 * needs.
 */
public final class ConditionsDeadline {
    private static final long FEW = 1000;

    private final QueryDeadline deadline = new QueryDeadline();
    private final long count;

    private ConditionsDeadline(long count) {
        this.count = count;
    }

    /** The deadline of so many conditions; null for few. */
    public static ConditionsDeadline of(long count) {
        return count > FEW ? new ConditionsDeadline(count) : null;
    }

    /** The conditions were compared with an entry, which took so long. `QueryException` when the deadline has passed. */
    public void spend(long nanos) {
        deadline.spend(nanos, () -> "The predicate's " + count + " conditions took more than " + QueryDeadline.MOST
            + "; nothing was read. Use fewer conditions, `in` for many values of one attribute, or get_all for many keys.");
    }
}
