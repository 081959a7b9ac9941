package kvwal.transactions;

/** Key of an intent: its id, the member that expands it into changes, and the map that it is of. The log stores it as text. */
final class IntentKey {
    static final String MAP = "__kvwal.intents";
    /** Class of the key in the log: the structure "intent". */
    static final String CLASS = "intent:str";

    private IntentKey() { }

    static String of(String id, String expander, String map) {
        return id + " " + expander + " " + map;
    }

    static String map(String key) {
        return key.split(" ", 3)[2];
    }

    static String expander(String key) {
        return key.split(" ", 3)[1];
    }
}
