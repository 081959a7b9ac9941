package kvwal.backups;

import com.hazelcast.internal.cluster.ClusterService;
import com.hazelcast.internal.partition.InternalPartition;
import com.hazelcast.internal.partition.PartitionReplica;
import com.hazelcast.internal.services.ServiceNamespace;
import com.hazelcast.internal.util.ConcurrencyUtil;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.spi.impl.InternalCompletableFuture;
import com.hazelcast.spi.impl.NodeEngineImpl;
import com.hazelcast.spi.impl.PartitionSpecificRunnable;
import com.hazelcast.spi.impl.operationservice.Operation;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import kvwal.backups.PendingChange.MapPartition;
import kvwal.node.DaemonThreads;
import kvwal.quorum.Leases;

/**
 * Asks the backups of a partition whether they have all of its changes. A missing backup counts as one that has them once its
 * lease has ended everywhere: it cannot serve from its memory then.
 */
final class BackupVerifier {
    private static final long ASK_AGAIN_NANOS = TimeUnit.SECONDS.toNanos(1);
    /** A backup that has been behind for this time asks the owner again. */
    private static final long AGAIN_NANOS = TimeUnit.SECONDS.toNanos(10);
    private static final int NEVER = -1;

    private final NodeEngineImpl engine;
    private final int backups;
    private final Leases leases;
    private final PendingTable pending;
    private final Map<MapPartition, Long> asked = new ConcurrentHashMap<>();
    private final Map<MapPartition, Long> behind = new ConcurrentHashMap<>();
    /** The version of the member list for which no member outside the list has a lease. */
    private volatile int over = NEVER;
    private final AtomicBoolean asksLeases = new AtomicBoolean();
    private final ExecutorService leaseAsker = Executors.newSingleThreadExecutor(DaemonThreads.named("kvwal-pending-leases"));

    BackupVerifier(NodeEngineImpl engine, int backups, Leases leases, PendingTable pending) {
        this.engine = engine;
        this.backups = backups;
        this.leases = leases;
        this.pending = pending;
    }

    /** How many backups have to acknowledge a change. More than there are, if a missing one may still have a lease. */
    int needed(int partition) {
        InternalPartition found = engine.getPartitionService().getPartition(partition, false);
        int there = 0;
        for (int replica = 1; replica <= backups; replica++) {
            there += isThere(found.getReplica(replica)) ? 1 : 0;
        }
        return there == backups || isOver() ? there : backups;
    }

    private boolean isThere(PartitionReplica replica) {
        return replica != null && engine.getClusterService().getMember(replica.address(), replica.uuid()) != null;
    }

    private boolean isOver() {
        if (over == engine.getClusterService().getMemberListVersion()) {
            return true;
        }
        askLeases();
        return false;
    }

    private void askLeases() {
        if (!asksLeases.compareAndSet(false, true)) {
            return;
        }
        leaseAsker.execute(() -> {
            try {
                ClusterService members = engine.getClusterService();
                int version = members.getMemberListVersion();
                if (leases.isOver() && version == members.getMemberListVersion()) {
                    over = version;
                }
            } finally {
                asksLeases.set(false);
            }
        });
    }

    /** Settles the answered changes of a partition if possible. Call it again until they are settled. */
    void ask(MapPartition place) {
        long now = System.nanoTime();
        Long before = asked.get(place);
        if (before != null && now - before < ASK_AGAIN_NANOS) {
            return;
        }
        asked.put(place, now);
        // On the partition's own thread, so that the question follows all backups sent before.
        engine.getOperationService().execute(new PartitionSpecificRunnable() {
            @Override
            public int getPartitionId() {
                return place.partition();
            }

            @Override
            public void run() {
                askHere(place, now);
            }
        });
    }

    private void askHere(MapPartition place, long since) {
        InternalPartition partition = engine.getPartitionService().getPartition(place.partition(), false);
        if (!partition.isLocal()) {
            end(place, since);
            behind.remove(place);
            pending.moved(place);
            return;
        }
        List<PendingChange> changes = pending.answered(place);
        ServiceNamespace namespace = MapService.getObjectNamespace(place.map());
        long[] versions = engine.getPartitionService().getPartitionReplicaVersionManager()
            .getPartitionReplicaVersions(place.partition(), namespace);
        List<CompletableFuture<Boolean>> answers = new ArrayList<>();
        for (int replica = 1; replica <= backups; replica++) {
            PartitionReplica backup = partition.getReplica(replica);
            if (isThere(backup)) {
                answers.add(check(place, replica, versions[replica - 1], backup));
            } else if (!isOver()) {
                answers.add(CompletableFuture.completedFuture(false));
            }
        }
        CompletableFuture.allOf(answers.toArray(new CompletableFuture<?>[0])).whenComplete((nothing, error) -> {
            end(place, since);
            if (error == null && answers.stream().allMatch(CompletableFuture::join)) {
                behind.remove(place);
                changes.forEach(pending::settle);
                if (pending.isDue(place)) {
                    ask(place);
                }
            } else {
                behind.putIfAbsent(place, System.nanoTime());
            }
        });
    }

    private void end(MapPartition place, long since) {
        asked.remove(place, since);
    }

    private CompletableFuture<Boolean> check(MapPartition place, int replica, long version, PartitionReplica backup) {
        Long since = behind.get(place);
        boolean insists = since != null && System.nanoTime() - since > AGAIN_NANOS;
        if (insists) {
            behind.remove(place);
        }
        Operation check = new BackupCheck(place.map(), version, insists)
            .setPartitionId(place.partition()).setReplicaIndex(replica);
        InternalCompletableFuture<Boolean> answer = engine.getOperationService()
            .createInvocationBuilder(MapService.SERVICE_NAME, check, backup.address()).setTryCount(1).invoke();
        CompletableFuture<Boolean> hasAll = new CompletableFuture<>();
        answer.whenCompleteAsync((said, error) -> hasAll.complete(error == null && said), ConcurrencyUtil.CALLER_RUNS);
        return hasAll;
    }
}
