package com.hazelcast.query.impl.predicates;

import com.hazelcast.internal.serialization.impl.FactoryIdHelper;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import com.hazelcast.nio.serialization.IdentifiedDataSerializable;
import com.hazelcast.query.Predicate;
import com.hazelcast.query.impl.IndexRegistry;
import com.hazelcast.query.impl.QueryContext;
import com.hazelcast.query.impl.QueryableEntry;
import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import kvwal.clients.deadlines.ConditionsDeadline;

/** What the patches of AndPredicate and OrPredicate have in common: their conditions, and a deadline if these are many. */
@SuppressWarnings({"rawtypes", "unchecked"})
abstract class Conditions
        implements IndexAwarePredicate, VisitablePredicate, NegatablePredicate, IdentifiedDataSerializable, CompoundPredicate {
    private static final long serialVersionUID = 1L;

    protected Predicate[] predicates;
    /** How many conditions there are in all, those in conditions included. */
    private transient long count;
    /** Null if the conditions are few. */
    private transient ConditionsDeadline deadline;

    Conditions(Predicate... predicates) {
        begin(predicates);
    }

    private void begin(Predicate[] found) {
        predicates = found;
        if (found != null) {
            count = Arrays.stream(found).mapToLong(Conditions::count).sum();
            deadline = ConditionsDeadline.of(count);
        }
    }

    private static long count(Predicate condition) {
        Predicate inner = condition;
        while (inner instanceof NotPredicate not) {
            inner = not.getPredicate();
        }
        return inner instanceof Conditions many ? many.count : 1;
    }

    /** Whether the entry fulfils them. */
    abstract boolean hold(Map.Entry entry);

    @Override
    public boolean apply(Map.Entry entry) {
        if (deadline == null) {
            return hold(entry);
        }
        long since = System.nanoTime();
        boolean holds = hold(entry);
        deadline.spend(System.nanoTime() - since);
        return holds;
    }

    /**
     * What a visitor made of these conditions, with the same deadline: Hazelcast rewrites a predicate again for each partition
     * that it scans, and all of these scans are one query.
     */
    Predicate timed(Predicate rewritten) {
        if (rewritten instanceof Conditions many && many.deadline != null && deadline != null) {
            many.deadline = deadline;
        }
        return rewritten;
    }

    /** The negation of each condition. */
    Predicate[] negated() {
        return Arrays.stream(predicates).map(condition ->
            condition instanceof NegatablePredicate negatable ? negatable.negate() : new NotPredicate(condition))
            .toArray(Predicate[]::new);
    }

    static boolean isIndexed(Predicate condition, QueryContext context) {
        return condition instanceof IndexAwarePredicate aware && aware.isIndexed(context);
    }

    /** The entries that an index has for one condition. Another thread may change the number of partitions meanwhile. */
    static Set<QueryableEntry> filtered(Predicate condition, QueryContext context) {
        int owned = context.getOwnedPartitionCount();
        context.setOwnedPartitionCount(IndexRegistry.SKIP_PARTITIONS_COUNT_CHECK);
        Set<QueryableEntry> found = ((IndexAwarePredicate) condition).filter(context);
        context.setOwnedPartitionCount(owned);
        return found;
    }

    String joined(String word) {
        StringJoiner text = new StringJoiner(word, "(", ")");
        for (Predicate condition : predicates) {
            text.add(String.valueOf(condition));
        }
        return text.toString();
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        out.writeInt(predicates.length);
        for (Predicate condition : predicates) {
            out.writeObject(condition);
        }
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        Predicate[] found = new Predicate[in.readInt()];
        for (int i = 0; i < found.length; i++) {
            found[i] = in.readObject();
        }
        begin(found);
    }

    @Override
    public int getFactoryId() {
        return FactoryIdHelper.PREDICATE_DS_FACTORY_ID;
    }

    @Override
    public <K, V> Predicate<K, V>[] getPredicates() {
        return predicates;
    }

    @Override
    public <K, V> void setPredicates(Predicate<K, V>[] found) {
        if (predicates != null) {
            throw new IllegalStateException("Cannot reset the conditions of a predicate after they have been set.");
        }
        begin(found);
    }

    @Override
    public boolean equals(Object other) {
        return this == other || other != null && getClass() == other.getClass()
            && Arrays.equals(predicates, ((Conditions) other).predicates);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(predicates);
    }
}
