package kvwal.node;

import java.util.concurrent.ThreadFactory;

/** Threads that do not keep the process alive. */
public final class DaemonThreads {
    private DaemonThreads() { }

    /** Makes threads of this name. */
    public static ThreadFactory named(String name) {
        return work -> {
            Thread thread = new Thread(work, name);
            thread.setDaemon(true);
            return thread;
        };
    }
}
