package kvwal.transactions.steps;

import java.util.HexFormat;
import java.util.UUID;

/**
 * Key of an intent: its id, the member that expands it into changes, and the map that it is of. The log stores it as text.
 *
 * The last 16 digits of an id are the number of its transaction: negative, its last 16 bits count the changes of guards, which
 * are the last changes of the intent, and the others count the runs of the member. A run never has the locks of another one, if
 * its client sent it twice, either. Members of earlier versions made other ids, and took no locks.
 */
public final class IntentKey {
    public static final String MAP = "__kvwal.intents";
    /** Class of the key in the log: the structure "intent". */
    public static final String CLASS = "intent:str";
    /** Most changes of guards. */
    public static final int MOST_GUARDS = 0xffff;
    private static final int GUARDS_BITS = 16;
    private static final int DIGITS = 16;
    private static final String ZEROS = "0".repeat(DIGITS);

    private IntentKey() { }

    /** The number of a transaction: `count` is another one for each run of its member. */
    public static long number(long count, int guards) {
        return Long.MIN_VALUE | count << GUARDS_BITS | guards;
    }

    public static String of(long number, UUID expander, String map) {
        return ZEROS + HexFormat.of().toHexDigits(number) + " " + expander + " " + map;
    }

    /** Whether the transaction has locks. */
    public static boolean hasLocks(String key) {
        return key.startsWith(ZEROS) && key.indexOf(' ') == 2 * DIGITS && number(key) < 0;
    }

    static long number(String key) {
        return Long.parseUnsignedLong(key.substring(DIGITS, 2 * DIGITS), DIGITS);
    }

    /** How many of the last changes are of guards. */
    public static int guards(String key) {
        return hasLocks(key) ? (int) (number(key) & MOST_GUARDS) : 0;
    }

    public static String map(String key) {
        return key.split(" ", 3)[2];
    }

    public static String expander(String key) {
        return key.split(" ", 3)[1];
    }
}
