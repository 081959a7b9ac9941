package kvwal.node;

/**
 * Numbers and executors of kvwal's tasks: members and clients of other versions know them, so a number never changes its meaning.
 */
public final class TaskIds {
    /** Number of the factory. kvwal/client knows it, RUN_TRANSACTION, RUN_CONDITIONAL, ASK_HISTORY and KEY_PREFIX. */
    public static final int FACTORY = 27510;
    public static final int RUN_TRANSACTION = 1;
    public static final int APPLY_CHANGE = 2;
    public static final int TAKE_OVER_INTENT = 3;
    public static final int FORGET_INTENT = 4;
    public static final int APPEND_BATCH = 5;
    public static final int PUBLISH_BOUND = 6;
    public static final int READ_BOUNDS = 7;
    public static final int RENEW_LEASE = 8;
    public static final int REMAINING_LEASE = 9;
    public static final int ASK_HISTORY = 10;
    public static final int BULK_ON_KEYS = 11;
    public static final int BULK_ON_ALL = 12;
    public static final int BULK_ON_MATCHES = 13;
    public static final int READ_TIMESTAMP = 14;
    public static final int RUN_CONDITIONAL = 15;
    public static final int ASK_PEER = 20;
    public static final int REPORT_LINKS = 21;
    public static final int BACKUP_CHECK = 22;
    public static final int KEY_PREFIX = 23;

    /** Executor of clients' transactions, with a thread for each that is under way. */
    public static final String TRANSACTIONS = "kvwal";
    /** Executor of clients' history requests: apart from transactions, which would wait when the archive is away. */
    public static final String HISTORY = "kvwal.questions";
    /** Executor of the tasks that members send each other. */
    public static final String BETWEEN_MEMBERS = "kvwal.members";

    private TaskIds() { }

    /** Whether a client may send the task of this number; all others are for members only. */
    public static boolean isOfClients(int number) {
        return number == RUN_TRANSACTION || number == RUN_CONDITIONAL || number == ASK_HISTORY;
    }
}
