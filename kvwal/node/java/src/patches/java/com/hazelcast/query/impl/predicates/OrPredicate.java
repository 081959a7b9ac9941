package com.hazelcast.query.impl.predicates;

import com.hazelcast.internal.serialization.BinaryInterface;
import com.hazelcast.query.Predicate;
import com.hazelcast.query.Predicates;
import com.hazelcast.query.impl.IndexRegistry;
import com.hazelcast.query.impl.OrResultSet;
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
public final class OrPredicate extends Conditions {
    private static final long serialVersionUID = 1L;

    public OrPredicate() {
        super((Predicate[]) null);
    }

    public OrPredicate(Predicate... predicates) {
        super(predicates);
    }

    @Override
    boolean hold(Map.Entry entry) {
        for (Predicate condition : predicates) {
            if (condition.apply(entry)) {
                return true;
            }
        }
        return false;
    }

    @Override
    public Predicate accept(Visitor visitor, IndexRegistry indexes) {
        Predicate[] result = VisitorUtils.acceptVisitor(predicates, visitor, indexes);
        OrPredicate visited = result == predicates ? this : new OrPredicate(result);
        timed(visited);
        return timed(visitor.visit(visited, indexes));
    }

    @Override
    public Set<QueryableEntry> filter(QueryContext context) {
        List<Set<QueryableEntry>> all = new ArrayList<>();
        for (Predicate condition : predicates) {
            if (!(condition instanceof IndexAwarePredicate)) {
                continue;
            }
            if (!isIndexed(condition, context)) {
                return null;
            }
            Set<QueryableEntry> found = filtered(condition, context);
            if (found != null) {
                all.add(found);
            }
        }
        return all.isEmpty() ? null : new OrResultSet(all);
    }

    @Override
    public boolean isIndexed(QueryContext context) {
        return Arrays.stream(predicates).allMatch(condition -> isIndexed(condition, context));
    }

    @Override
    public Predicate negate() {
        return timed(Predicates.and(negated()));
    }

    @Override
    public int getClassId() {
        return PredicateDataSerializerHook.OR_PREDICATE;
    }

    @Override
    public String toString() {
        return joined(" OR ");
    }
}
