package kvwal.backups;

import com.hazelcast.cluster.Member;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.internal.partition.InternalPartition;
import com.hazelcast.internal.partition.PartitionReplicaVersionManager;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.operation.OperationKeys;
import com.hazelcast.spi.exception.RetryableHazelcastException;
import com.hazelcast.spi.impl.NodeEngineImpl;
import com.hazelcast.spi.impl.operationservice.MutatingOperation;
import com.hazelcast.spi.impl.operationservice.NamedOperation;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.OperationResponseHandler;
import com.hazelcast.spi.impl.operationservice.impl.LocalInvocation;
import com.hazelcast.spi.impl.operationservice.impl.responses.NormalResponse;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import kvwal.backups.PendingChange.MapPartition;
import kvwal.node.DaemonThreads;
import kvwal.node.NotWritten;
import kvwal.quorum.Leases;
import kvwal.quorum.Majority;

/**
 * Pending changes of the maps with a log, and of the map of intents: those that a backup may lack. A response that shows one of
 * them is sent when it is settled, so nobody sees a change that would be lost together with this member.
 *
 * A change is settled when the backups of its invocation have acknowledged it. If this member cannot hear the acknowledgements,
 * or they do not come, BackupVerifier asks the backups.
 */
public final class PendingChanges {
    private static final int LOOK_MILLIS = 50;
    /** The operation that this thread runs, or ran last, if it changes a map. */
    private static final ThreadLocal<Operation> CURRENT = new ThreadLocal<>();

    private final PendingTable table = new PendingTable();
    private final Set<Held> held = ConcurrentHashMap.newKeySet();
    private final AtomicBoolean looks = new AtomicBoolean();
    private final int backups;
    private final Leases leases;
    private final Majority majority;
    private final ScheduledExecutorService timer =
        Executors.newSingleThreadScheduledExecutor(DaemonThreads.named("kvwal-pending"));
    private volatile NodeEngineImpl engine;
    private volatile BackupVerifier verifier;

    /** Each change is to be in the memory of `backups` other members; with 0 no change is pending. */
    public PendingChanges(int backups, Leases leases, Majority majority) {
        this.backups = backups;
        this.leases = leases;
        this.majority = majority;
    }

    /** Response that waits for pending changes. */
    interface Held {
        /** Sends this error instead. */
        void fail(RuntimeException error);
    }

    /** An operation of a client is about to run, for the first time or with its next step. False if no change is ever pending. */
    boolean follow(NodeEngineImpl own, Operation operation) {
        if (backups == 0) {
            return false;
        }
        if (verifier == null) {
            begin(own);
        }
        if (operation instanceof MutatingOperation) {
            CURRENT.set(operation);
        }
        return true;
    }

    private synchronized void begin(NodeEngineImpl own) {
        if (verifier == null) {
            engine = own;
            verifier = new BackupVerifier(own, backups, leases, table);
        }
    }

    /** Called before this thread sends changes to the log. Null without a backup, or outside an operation of a client. */
    public PendingChange begin(String map, int partition, List<Data> keys) {
        Operation operation = CURRENT.get();
        boolean isOf = operation instanceof NamedOperation named && named.getName().equals(map)
            && operation.getPartitionId() == partition;
        if (!isOf || engine.getClusterService().getSize() < 2) {
            return null;
        }
        return table.add(new MapPartition(map, partition), keys, operation);
    }

    /** Every backup has the change, or the log refused it. */
    public void settle(PendingChange change) {
        table.settle(change);
    }

    /** The map is destroyed. */
    public void forget(String map) {
        table.ofMap(map).forEach(table::settle);
    }

    /** Called when the operation has its response. Returns the pending changes that the operation made. */
    List<PendingChange> end(Operation operation) {
        if (CURRENT.get() == operation) {
            CURRENT.remove();
        }
        if (!(operation instanceof MutatingOperation) || table.isEmpty()) {
            return List.of();
        }
        return table.at(place(operation)).stream().filter(change -> change.isOf(operation)).toList();
    }

    private static MapPartition place(Operation operation) {
        return new MapPartition(((NamedOperation) operation).getName(), operation.getPartitionId());
    }

    /** Whether the caller waits for every backup that there should be; then the changes are settled when its invocation ends. */
    boolean expectBackups(Operation operation, List<PendingChange> own, Object response, OperationResponseHandler<?> sender) {
        int awaited = response instanceof NormalResponse normal ? normal.getBackupAcks() : 0;
        if (awaited == 0 || awaited < verifier.needed(operation.getPartitionId())) {
            return false;
        }
        own.forEach(PendingChange::answer);
        boolean isHeard = LocalInvocation.then(sender, succeeded -> {
            if (succeeded) {
                own.forEach(table::settle);
            } else {
                askFor(own);
            }
        });
        if (!isHeard) {
            askFor(own);
        }
        return true;
    }

    /** The operation failed, or its caller does not wait for its backups: the backups are asked. */
    void doubt(Operation operation, List<PendingChange> own, boolean failed) {
        if (failed) {
            raiseVersion(operation);
        }
        own.forEach(PendingChange::answer);
        askFor(own);
    }

    /** The operation may have changed memory, and sent no backup. A raised version shows the backups that they lack something. */
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
        verifier.ask(unsure.get(0).place);
        look();
    }

    /** The pending changes that the response shows, without those whose backups the caller waits for. */
    Collection<PendingChange> shownBy(Operation operation, List<PendingChange> awaited) {
        if (table.isEmpty()) {
            return List.of();
        }
        Data key = OperationKeys.one(operation);
        if (key != null) {
            // Its own change of the key replaces all before it.
            return awaited.isEmpty()
                ? table.at(place(operation)).stream().filter(change -> change.touches(key)).toList() : List.of();
        }
        if (!OperationKeys.showsMany(operation)) {
            return List.of();
        }
        Collection<PendingChange> shown = operation.getPartitionId() < 0
            ? table.ofMap(((NamedOperation) operation).getName()) : table.at(place(operation));
        return shown.stream().filter(change -> !awaited.contains(change)).toList();
    }

    void hold(Held answer, Operation operation) {
        held.add(answer);
        // Hazelcast tells the caller's member that the operation is still under way.
        engine.getOperationService().getAsyncOperations().add(operation);
        look();
    }

    void release(Held answer, Operation operation) {
        engine.getOperationService().getAsyncOperations().remove(operation);
        held.remove(answer);
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
            table.forEachDue(verifier::ask);
        } catch (HazelcastInstanceNotActiveException | RejectedExecutionException error) {
            held.forEach(answer -> answer.fail(new HazelcastInstanceNotActiveException()));
        } finally {
            if (!table.isEmpty() || !held.isEmpty()) {
                look();
            }
        }
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
