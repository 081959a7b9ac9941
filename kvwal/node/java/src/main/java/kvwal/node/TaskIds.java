package kvwal.node;

/**
 * Numbers and executors of kvwal's tasks: members and clients of other versions know them, so a number never changes its meaning.
 * 2, 3, 4 and 14 were tasks of earlier versions.
 */
public final class TaskIds {
    /** Number of the factory. kvwal/client knows it, both timed tasks, ASK_HISTORY, ASK_FIGURES, KEY_PREFIX and OF_STRUCTURE. */
    public static final int FACTORY = 27510;
    public static final int RUN_TRANSACTION = 1;
    public static final int APPEND_BATCH = 5;
    public static final int PUBLISH_BOUND = 6;
    public static final int READ_BOUNDS = 7;
    public static final int RENEW_LEASE = 8;
    public static final int REMAINING_LEASE = 9;
    public static final int ASK_HISTORY = 10;
    public static final int BULK_ON_KEYS = 11;
    public static final int BULK_ON_ALL = 12;
    public static final int BULK_ON_MATCHES = 13;
    public static final int RUN_CONDITIONAL = 15;
    public static final int ASK_PEER = 20;
    public static final int REPORT_LINKS = 21;
    public static final int BACKUP_CHECK = 22;
    public static final int KEY_PREFIX = 23;
    public static final int RUN_TIMED = 24;
    public static final int RUN_TIMED_CONDITIONAL = 25;
    public static final int LOCK_KEYS = 26;
    public static final int UNLOCK_KEYS = 27;
    public static final int APPLY_CHANGES = 28;
    public static final int PARTITION_STEP = 29;
    public static final int MEMBER_STEP = 30;
    public static final int IS_EXPANDED = 31;
    public static final int FORCE_UNLOCK = 32;
    public static final int READ_LATEST = 33;
    public static final int OF_STRUCTURE = 34;
    public static final int ASK_FIGURES = 35;

    /** Executor of clients' transactions, with a thread for each that is under way. */
    public static final String TRANSACTIONS = "kvwal";
    /** Executor of clients' history requests: apart from transactions, which would wait when the archive is away. */
    public static final String HISTORY = "kvwal.questions";
    /** Executor of the tasks that members send each other. */
    public static final String BETWEEN_MEMBERS = "kvwal.members";

    /** Begins the error of a member that does not know a task: clients, and members, look for it. */
    public static final String UNKNOWN = "there is no task ";

    private TaskIds() { }

    /** Whether a client may send the task of this number; all others are for members only. */
    public static boolean isOfClients(int number) {
        return number == RUN_TRANSACTION || number == RUN_CONDITIONAL || number == RUN_TIMED || number == RUN_TIMED_CONDITIONAL
            || number == ASK_HISTORY || number == ASK_FIGURES;
    }
}
