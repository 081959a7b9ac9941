package com.hazelcast.query.impl.predicates;

import com.hazelcast.internal.serialization.BinaryInterface;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import com.hazelcast.query.impl.Index;
import com.hazelcast.query.impl.QueryContext;
import com.hazelcast.query.impl.QueryableEntry;
import java.io.IOException;
import java.util.Objects;
import java.util.Set;
import java.util.regex.Pattern;
import kvwal.clients.deadlines.PatternDeadline;

/**
 * Patch of Hazelcast's class: the same with a deadline (see PatternDeadline), because matching tries each % at each place of a
 * text.
 */
@BinaryInterface
@SuppressWarnings({"rawtypes", "unchecked"})
public class LikePredicate extends AbstractPredicate implements IndexAwarePredicate {
    private static final long serialVersionUID = 1L;
    private static final String LAST = "\uFFFF";

    protected String expression;
    private final transient PatternDeadline matching = new PatternDeadline();
    private transient volatile Pattern pattern;

    public LikePredicate() { }

    public LikePredicate(String attribute, String expression) {
        super(attribute);
        this.expression = expression;
    }

    @Override
    public Set<QueryableEntry> filter(QueryContext context) {
        String prefix = expression.substring(0, expression.length() - 1);
        return index(context).getRecords(prefix, true, prefix + LAST, false);
    }

    @Override
    public boolean isIndexed(QueryContext context) {
        Index index = index(context);
        return index != null && index.isOrdered() && isPrefix();
    }

    private Index index(QueryContext context) {
        return context.matchIndex(attributeName, QueryContext.IndexMatchHint.PREFER_ORDERED);
    }

    /** Whether its only wildcard is a % at its end. */
    private boolean isPrefix() {
        boolean escaped = false;
        for (int i = 0; i < expression.length(); i++) {
            char next = expression.charAt(i);
            if (next == '\\') {
                escaped = !escaped;
                continue;
            }
            if (!escaped && (next == '%' || next == '_')) {
                return next == '%' && i == expression.length() - 1;
            }
            escaped = false;
        }
        return false;
    }

    @Override
    protected boolean applyForSingleAttributeValue(Comparable value) {
        if (value == null || expression == null) {
            return value == null && expression == null;
        }
        if (pattern == null) {
            pattern = Pattern.compile(regex(), getFlags());
        }
        return matching.matches(pattern, (String) value);
    }

    /** A wildcard behind a backslash stands for itself, as does every other character. */
    private String regex() {
        return Pattern.quote(expression)
            .replaceAll("(?<!\\\\)%", "\\\\E.*\\\\Q").replaceAll("(?<!\\\\)_", "\\\\E.\\\\Q")
            .replaceAll("\\\\%", "%").replaceAll("\\\\_", "_");
    }

    protected int getFlags() {
        return Pattern.DOTALL;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        super.writeData(out);
        out.writeString(expression);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        super.readData(in);
        expression = in.readString();
    }

    @Override
    public int getClassId() {
        return PredicateDataSerializerHook.LIKE_PREDICATE;
    }

    @Override
    public String toString() {
        return attributeName + " LIKE '" + expression + "'";
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof LikePredicate;
    }

    @Override
    public boolean equals(Object other) {
        return this == other || super.equals(other) && other instanceof LikePredicate && ((LikePredicate) other).canEqual(this)
            && Objects.equals(expression, ((LikePredicate) other).expression);
    }

    @Override
    public int hashCode() {
        return 31 * super.hashCode() + Objects.hashCode(expression);
    }
}
