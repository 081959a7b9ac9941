package kvwal.clients.deadlines;

import com.hazelcast.query.QueryException;
import java.util.regex.Pattern;

/**
 * Deadline of one predicate with a regular expression, LIKE or ILIKE: a pattern can need more steps than there are seconds.
 *
 * Only long matches are timed, so an ordinary scan may take as long as it needs. A predicate whose long matches took too
 * much of ten seconds (QueryDeadline) fails; otherwise it would block a thread that all queries need.
 */
public final class PatternDeadline {
    /** Steps between two readings of the clock: a power of two. */
    private static final int STEPS = 1 << 12;

    private final QueryDeadline deadline = new QueryDeadline();

    /** Whether all of `text` matches. `QueryException` when the deadline has passed. */
    public boolean matches(Pattern pattern, String text) {
        try {
            return pattern.matcher(new Timed(text)).matches();
        } catch (StackOverflowError error) {
            throw new QueryException("The pattern " + pattern + " nests too deep for a value of " + text.length()
                + " characters; nothing was read. Use a simpler pattern.");
        }
    }

    private void spend(long nanos, CharSequence text) {
        deadline.spend(nanos, () -> "The predicate's pattern took more than " + QueryDeadline.MOST + " on values of up to "
            + text.length() + " characters; nothing was read. Use a simpler pattern.");
    }

    /** Text that measures how long a match reads it. */
    private final class Timed implements CharSequence {
        private final CharSequence text;
        private int steps;
        private long since = System.nanoTime();

        Timed(CharSequence text) {
            this.text = text;
        }

        @Override
        public char charAt(int index) {
            if ((++steps & STEPS - 1) == 0) {
                long now = System.nanoTime();
                spend(now - since, text);
                since = now;
            }
            return text.charAt(index);
        }

        @Override
        public int length() {
            return text.length();
        }

        @Override
        public CharSequence subSequence(int start, int end) {
            return text.subSequence(start, end);
        }

        @Override
        public String toString() {
            return text.toString();
        }
    }
}
