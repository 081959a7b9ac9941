package kvwal.backups;

import com.hazelcast.cluster.Member;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.internal.partition.InternalPartition;
import com.hazelcast.internal.partition.PartitionReplicaVersionManager;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.operation.OperationKeys;
import com.hazelcast.map.impl.operation.steps.engine.StepRunner;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import com.hazelcast.spi.impl.NodeEngineImpl;
import com.hazelcast.spi.impl.operationservice.MutatingOperation;
import com.hazelcast.spi.impl.operationservice.NamedOperation;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.OperationResponseHandler;
import com.hazelcast.spi.impl.operationservice.impl.LocalInvocation;
import com.hazelcast.spi.impl.operationservice.impl.responses.NormalResponse;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import kvwal.backups.PendingChange.MapPartition;
import kvwal.log.LogStore;
import kvwal.node.NotWritten;
import kvwal.quorum.Leases;
import kvwal.quorum.Majority;

/**
 * The changes of maps with a log that a backup may lack. What shows one of them is not answered before it is settled, so nobody is told
 * of a change that goes when this member does.
 *
 * A change is settled when the backups of its call have acknowledged it; where that cannot be heard, or does not come, they are asked
 * (BackupVerifier).
 */
public final class PendingChanges {
    private static final int LOOK_MILLIS = 50;
    /** A change is asked for after so long, if its acknowledgements have not come. */
    private static final long PATIENCE_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
    /** The change that this thread is making, or has made last. */
    private static final ThreadLocal<Operation> HERE = new ThreadLocal<>();

    private final Map<MapPartition, Set<PendingChange>> changes = new ConcurrentHashMap<>();
    private final Set<DeferredResponse> held = ConcurrentHashMap.newKeySet();
    private final AtomicBoolean looks = new AtomicBoolean();
    private int backups;
    private Leases leases;
    private Majority majority;
    private ScheduledExecutorService timer;
    private volatile NodeEngineImpl engine;
    private volatile BackupVerifier copies;

    /** Each change is to be in the memory of so many other members. Before this is called nothing is pending. */
    public void configure(int backups, Leases leases, Majority majority) {
        this.leases = leases;
        this.majority = majority;
        timer = Executors.newSingleThreadScheduledExecutor(work -> {
            Thread thread = new Thread(work, "kvwal-pending");
            thread.setDaemon(true);
            return thread;
        });
        this.backups = backups;
    }

    /** An operation of a client on a map is about to run, for the first time or with its next step. */
    public void pass(NodeEngineImpl own, Operation operation) {
        if (backups == 0) {
            return;
        }
        if (copies == null) {
            begin(own);
        }
        OperationResponseHandler<?> handler = operation.getOperationResponseHandler();
        if (handler != null && !(handler instanceof DeferredResponse) && !StepRunner.answersBy(handler)) {
            operation.setOperationResponseHandler(new DeferredResponse(this, handler));
        }
        if (operation instanceof MutatingOperation) {
            HERE.set(operation);
        }
    }

    private synchronized void begin(NodeEngineImpl own) {
        if (copies == null) {
            engine = own;
            copies = new BackupVerifier(own, backups, leases, this);
        }
    }

    /** This thread is about to hand these changes over to the log; null where there is no backup, or nobody to tell. */
    public PendingChange begin(String map, int partition, List<Data> keys) {
        Operation operation = HERE.get();
        boolean isOf = operation instanceof NamedOperation named && named.getName().equals(map)
            && operation.getPartitionId() == partition;
        if (!isOf || !LogStore.has(map) || engine.getClusterService().getSize() < 2) {
            return null;
        }
        PendingChange change = new PendingChange(new MapPartition(map, partition), keys, operation);
        changes.compute(change.place, (place, found) -> {
            Set<PendingChange> all = found == null ? ConcurrentHashMap.newKeySet() : found;
            all.add(change);
            return all;
        });
        return change;
    }

    /** Everybody may know of it, or it came to nothing. */
    public void settle(PendingChange change) {
        remove(change);
        change.settled.complete(null);
    }

    private void remove(PendingChange change) {
        changes.computeIfPresent(change.place, (place, all) -> {
            all.remove(change);
            return all.isEmpty() ? null : all;
        });
    }

    /** The map is destroyed. */
    public void forget(String map) {
        ofMap(map).forEach(this::settle);
    }

    private List<PendingChange> ofMap(String map) {
        List<PendingChange> found = new ArrayList<>();
        changes.forEach((place, all) -> {
            if (place.map().equals(map)) {
                found.addAll(all);
            }
        });
        return found;
    }

    private Set<PendingChange> at(MapPartition place) {
        return changes.getOrDefault(place, Set.of());
    }

    /** The operation is answered: its own changes. */
    List<PendingChange> end(Operation operation) {
        if (HERE.get() == operation) {
            HERE.remove();
        }
        if (!(operation instanceof MutatingOperation) || changes.isEmpty()) {
            return List.of();
        }
        return at(place(operation)).stream().filter(change -> change.isOf(operation)).toList();
    }

    private static MapPartition place(Operation operation) {
        return new MapPartition(((NamedOperation) operation).getName(), operation.getPartitionId());
    }

    /** False if the caller does not wait for all backups that there have to be, since one of them is missing. */
    boolean expectBackups(Operation operation, List<PendingChange> own, Object response, OperationResponseHandler<?> sender) {
        int awaited = response instanceof NormalResponse normal ? normal.getBackupAcks() : 0;
        if (awaited == 0 || awaited < copies.needed(operation.getPartitionId())) {
            return false;
        }
        own.forEach(PendingChange::answer);
        boolean isHeard = LocalInvocation.then(sender, succeeded -> {
            if (succeeded) {
                own.forEach(this::settle);
            } else {
                askFor(own);
            }
        });
        if (!isHeard) {
            askFor(own);
        }
        return true;
    }

    /** The operation failed, or nobody waits for its backups. */
    void doubt(Operation operation, List<PendingChange> own, boolean failed) {
        if (failed) {
            raiseVersion(operation);
        }
        own.forEach(PendingChange::answer);
        askFor(own);
    }

    /** What it changed may be in memory, and no backup was sent: with another version the backups see that they lack something. */
    private void raiseVersion(Operation operation) {
        InternalPartition partition = engine.getPartitionService().getPartition(operation.getPartitionId(), false);
        if (partition.isLocal()) {
            PartitionReplicaVersionManager versions = engine.getPartitionService().getPartitionReplicaVersionManager();
            versions.incrementPartitionReplicaVersions(operation.getPartitionId(),
                MapService.getObjectNamespace(((NamedOperation) operation).getName()), backups);
        }
    }

    private void askFor(List<PendingChange> unsure) {
        unsure.forEach(PendingChange::doubt);
        copies.ask(unsure.get(0).place);
        look();
    }

    /** The changes that its answer shows, without those that its caller waits for anyway. */
    Collection<PendingChange> shownBy(Operation operation, List<PendingChange> awaited) {
        if (changes.isEmpty()) {
            return List.of();
        }
        Data key = OperationKeys.one(operation);
        if (key != null) {
            // Its own change of the key stands over all before it.
            return awaited.isEmpty() ? at(place(operation)).stream().filter(change -> change.touches(key)).toList() : List.of();
        }
        if (!OperationKeys.showsMany(operation)) {
            return List.of();
        }
        Collection<PendingChange> shown = operation.getPartitionId() < 0
            ? ofMap(((NamedOperation) operation).getName()) : at(place(operation));
        return shown.stream().filter(change -> !awaited.contains(change)).toList();
    }

    void hold(DeferredResponse answer, Operation operation) {
        held.add(answer);
        // Whoever waits for it elsewhere is told that it is still under way.
        engine.getOperationService().getAsyncOperations().add(operation);
        look();
    }

    void release(DeferredResponse answer, Operation operation) {
        engine.getOperationService().getAsyncOperations().remove(operation);
        held.remove(answer);
    }

    /** Those that are to be in the memory of the backups by now. */
    List<PendingChange> answered(MapPartition place) {
        return at(place).stream().filter(PendingChange::isAnswered).toList();
    }

    /** Another member owns the partition: whoever waits for these changes asks that one. */
    void moved(MapPartition place) {
        for (PendingChange change : answered(place)) {
            remove(change);
            change.settled.completeExceptionally(new IllegalStateException("moved"));
        }
    }

    private void look() {
        if (looks.compareAndSet(false, true)) {
            timer.schedule(this::lookNow, LOOK_MILLIS, TimeUnit.MILLISECONDS);
        }
    }

    private void lookNow() {
        looks.set(false);
        try {
            failWithoutMajority();
            long now = System.nanoTime();
            changes.forEach((place, all) -> {
                if (isDue(all, now)) {
                    copies.ask(place);
                }
            });
        } catch (HazelcastInstanceNotActiveException | RejectedExecutionException error) {
            held.forEach(answer -> answer.fail(new HazelcastInstanceNotActiveException()));
        } finally {
            if (!changes.isEmpty() || !held.isEmpty()) {
                look();
            }
        }
    }

    private static boolean isDue(Set<PendingChange> all, long now) {
        return all.stream().anyMatch(change -> change.isDue(now, PATIENCE_NANOS));
    }

    /** Whether changes were made since the backups were asked last, whose acknowledgements nobody will hear of. */
    boolean isDue(MapPartition place) {
        return isDue(at(place), System.nanoTime());
    }

    private void failWithoutMajority() {
        if (held.isEmpty()) {
            return;
        }
        Collection<? extends Member> members = engine.getClusterService().getMembers();
        try {
            majority.check(members);
        } catch (NotWritten | RetryableHazelcastException error) {
            held.forEach(answer -> answer.fail(error));
        }
    }
}
