package kvwal.member;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.spi.impl.NodeEngineImpl;
import com.hazelcast.spi.impl.PartitionSpecificRunnable;
import com.hazelcast.spi.impl.executionservice.ExecutionService;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import kvwal.node.HazelcastInternals;

/** Probe of the threads that run predicates: an empty task that queues with them. */
public final class QueryProbe {
    private static final long NANOS = 1_000_000_000L;

    private final Map<String, Line> lines = new LinkedHashMap<>();

    public QueryProbe(HazelcastInstance instance) {
        NodeEngineImpl engine = HazelcastInternals.engine(instance);
        for (String name : new String[] {ExecutionService.CLIENT_QUERY_EXECUTOR, ExecutionService.QUERY_EXECUTOR}) {
            lines.put(name, new Line(engine.getExecutionService().getExecutor(name)));
        }
        lines.put("hz:generic-operation", new Line(task -> engine.getOperationService().execute(anywhere(task))));
    }

    private static PartitionSpecificRunnable anywhere(Runnable task) {
        return new PartitionSpecificRunnable() {
            @Override
            public int getPartitionId() {
                return -1;
            }

            @Override
            public void run() {
                task.run();
            }
        };
    }

    /** Seconds that the longest waiting task has waited. Tasks that have run are queued again. */
    public double waitingSeconds() {
        long longest = 0;
        for (Line line : lines.values()) {
            longest = Math.max(longest, line.look());
        }
        return (double) longest / NANOS;
    }

    /** One task in one queue at a time. */
    private static final class Line {
        private final Executor executor;
        private long since;
        private volatile boolean waits;

        Line(Executor executor) {
            this.executor = executor;
        }

        long look() {
            long now = System.nanoTime();
            if (waits) {
                return now - since;
            }
            waits = true;
            since = now;
            try {
                executor.execute(() -> waits = false);
            } catch (RejectedExecutionException error) {
                return Long.MAX_VALUE; // its queue is full, or the member ends
            }
            return 0;
        }
    }
}
