package com.hazelcast.query.impl.predicates;

import com.hazelcast.internal.serialization.BinaryInterface;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import java.io.IOException;
import java.util.Objects;
import java.util.regex.Pattern;
import kvwal.clients.deadlines.PatternDeadline;

/** Patch of Hazelcast's class: the same with a deadline (see PatternDeadline). */
@BinaryInterface
@SuppressWarnings({"rawtypes", "unchecked"})
public class RegexPredicate extends AbstractPredicate {
    private static final long serialVersionUID = 1L;

    private final transient PatternDeadline matching = new PatternDeadline();
    private String regex;
    private transient volatile Pattern pattern;

    public RegexPredicate() { }

    public RegexPredicate(String attribute, String regex) {
        super(attribute);
        this.regex = regex;
    }

    @Override
    protected boolean applyForSingleAttributeValue(Comparable value) {
        if (value == null || regex == null) {
            return value == null && regex == null;
        }
        if (pattern == null) {
            pattern = Pattern.compile(regex);
        }
        return matching.matches(pattern, (String) value);
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        super.writeData(out);
        out.writeString(regex);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        super.readData(in);
        regex = in.readString();
    }

    @Override
    public int getClassId() {
        return PredicateDataSerializerHook.REGEX_PREDICATE;
    }

    @Override
    public String toString() {
        return attributeName + " REGEX '" + regex + "'";
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof RegexPredicate;
    }

    @Override
    public boolean equals(Object other) {
        return this == other || super.equals(other) && other instanceof RegexPredicate && ((RegexPredicate) other).canEqual(this)
            && Objects.equals(regex, ((RegexPredicate) other).regex);
    }

    @Override
    public int hashCode() {
        return 31 * super.hashCode() + Objects.hashCode(regex);
    }
}
