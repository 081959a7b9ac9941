package com.hazelcast.query.impl.predicates;

import com.hazelcast.internal.serialization.BinaryInterface;
import com.hazelcast.query.Predicate;
import com.hazelcast.query.Predicates;
import com.hazelcast.query.impl.AndResultSet;
import com.hazelcast.query.impl.IndexRegistry;
import com.hazelcast.query.impl.QueryContext;
import com.hazelcast.query.impl.QueryableEntry;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Patch of Hazelcast's class: the same with a deadline (see ConditionsDeadline). */
@BinaryInterface
@SuppressWarnings({"rawtypes", "unchecked"})
public final class AndPredicate extends Conditions {
    private static final long serialVersionUID = 1L;

    public AndPredicate() {
        super((Predicate[]) null);
    }

    public AndPredicate(Predicate... predicates) {
        super(predicates);
    }

    @Override
    boolean hold(Map.Entry entry) {
        for (Predicate condition : predicates) {
            if (!condition.apply(entry)) {
                return false;
            }
        }
        return true;
    }

    @Override
    public Predicate accept(Visitor visitor, IndexRegistry indexes) {
        Predicate[] result = VisitorUtils.acceptVisitor(predicates, visitor, indexes);
        AndPredicate visited = result == predicates ? this : new AndPredicate(result);
        timed(visited);
        return timed(visitor.visit(visited, indexes));
    }

    @Override
    public Set<QueryableEntry> filter(QueryContext context) {
        Set<QueryableEntry> smallest = null;
        List<Set<QueryableEntry>> others = null;
        List<Predicate> unindexed = null;
        for (Predicate condition : predicates) {
            if (!isIndexed(condition, context)) {
                unindexed = with(unindexed, condition);
                continue;
            }
            Set<QueryableEntry> found = filtered(condition, context);
            if (smallest == null) {
                smallest = found;
            } else if (PredicateUtils.estimatedSizeOf(found) < PredicateUtils.estimatedSizeOf(smallest)) {
                others = with(others, smallest);
                smallest = found;
            } else {
                others = with(others, found);
            }
        }
        return smallest == null ? null : new AndResultSet(smallest, others, unindexed);
    }

    private static <T> List<T> with(List<T> list, T next) {
        List<T> found = list == null ? new ArrayList<>() : list;
        found.add(next);
        return found;
    }

    @Override
    public boolean isIndexed(QueryContext context) {
        return Arrays.stream(predicates).anyMatch(condition -> isIndexed(condition, context));
    }

    @Override
    public Predicate negate() {
        return timed(Predicates.or(negated()));
    }

    @Override
    public int getClassId() {
        return PredicateDataSerializerHook.AND_PREDICATE;
    }

    @Override
    public String toString() {
        return joined(" AND ");
    }
}
