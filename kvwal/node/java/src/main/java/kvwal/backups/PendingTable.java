package kvwal.backups;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.spi.impl.operationservice.Operation;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import kvwal.backups.PendingChange.MapPartition;

/** Table of the pending changes, by map and partition. Thread-safe. */
final class PendingTable {
    /** Backups are asked after this time without an acknowledgement. */
    private static final long UNANSWERED_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

    private final Map<MapPartition, Set<PendingChange>> changes = new ConcurrentHashMap<>();

    PendingChange add(MapPartition place, List<Data> keys, Operation operation) {
        PendingChange change = new PendingChange(place, keys, operation);
        changes.compute(place, (same, found) -> {
            Set<PendingChange> all = found == null ? ConcurrentHashMap.newKeySet() : found;
            all.add(change);
            return all;
        });
        return change;
    }

    boolean isEmpty() {
        return changes.isEmpty();
    }

    List<PendingChange> ofMap(String map) {
        List<PendingChange> found = new ArrayList<>();
        changes.forEach((place, all) -> {
            if (place.map().equals(map)) {
                found.addAll(all);
            }
        });
        return found;
    }

    Set<PendingChange> at(MapPartition place) {
        return changes.getOrDefault(place, Set.of());
    }

    /** The changes whose operations have responded: the backups should have them by now. */
    List<PendingChange> answered(MapPartition place) {
        return at(place).stream().filter(PendingChange::isAnswered).toList();
    }

    /** Every backup has the change, or the log refused it. */
    void settle(PendingChange change) {
        remove(change);
        change.settled.complete(null);
    }

    /** Another member owns the partition: the callers of its changes retry there. */
    void moved(MapPartition place) {
        for (PendingChange change : answered(place)) {
            remove(change);
            change.settled.completeExceptionally(new IllegalStateException("moved"));
        }
    }

    private void remove(PendingChange change) {
        changes.computeIfPresent(change.place, (place, all) -> {
            all.remove(change);
            return all.isEmpty() ? null : all;
        });
    }

    /** Whether the backups of this partition have to be asked about a change. */
    boolean isDue(MapPartition place) {
        return isDue(at(place), System.nanoTime());
    }

    /** Every partition whose backups have to be asked. */
    void forEachDue(Consumer<MapPartition> action) {
        long now = System.nanoTime();
        changes.forEach((place, all) -> {
            if (isDue(all, now)) {
                action.accept(place);
            }
        });
    }

    private static boolean isDue(Set<PendingChange> all, long now) {
        return all.stream().anyMatch(change -> change.isDue(now, UNANSWERED_NANOS));
    }
}
