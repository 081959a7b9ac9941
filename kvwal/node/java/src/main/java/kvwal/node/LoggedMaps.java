package kvwal.node;

/** Which maps have a log: all but those in memory only (`tmp.`) and those of the members themselves (`__`). */
public final class LoggedMaps {
    private static final String VOLATILE = "tmp.";
    private static final String INTERNAL = "__";

    private LoggedMaps() { }

    /** Whether clients' changes of a map of this name are logged. */
    public static boolean has(String map) {
        return !map.startsWith(VOLATILE) && !map.startsWith(INTERNAL);
    }

    /** Whether a map of this name is the members' own: no client may change it. */
    public static boolean isInternal(String map) {
        return map.startsWith(INTERNAL);
    }

    /** As `has`, of a name in UTF-8: for each request of a client, without decoding it. */
    public static boolean has(byte[] map) {
        return !startsWith(map, VOLATILE) && !startsWith(map, INTERNAL);
    }

    private static boolean startsWith(byte[] name, String prefix) {
        for (int i = 0; i < prefix.length(); i++) {
            if (i == name.length || name[i] != prefix.charAt(i)) {
                return false;
            }
        }
        return true;
    }
}
