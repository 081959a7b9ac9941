package kvwal.member;

import com.hazelcast.map.impl.operation.BulkEntryOperations;
import com.hazelcast.nio.serialization.DataSerializableFactory;
import com.hazelcast.nio.serialization.IdentifiedDataSerializable;
import kvwal.backups.BackupCheck;
import kvwal.clients.KeyPrefix;
import kvwal.clients.OfStructure;
import kvwal.clock.ClockBounds;
import kvwal.failover.AppendBatch;
import kvwal.history.HistoryRequests;
import kvwal.locks.ForceUnlock;
import kvwal.log.LatestTimestamps;
import kvwal.node.TaskIds;
import kvwal.quorum.Leases;
import kvwal.quorum.LinkMonitor;
import kvwal.transactions.IsExpanded;
import kvwal.transactions.RunTransaction;
import kvwal.transactions.steps.ApplyChanges;
import kvwal.transactions.steps.LockKeys;
import kvwal.transactions.steps.MemberStep;
import kvwal.transactions.steps.PartitionStep;
import kvwal.transactions.steps.UnlockKeys;

/** Factory of kvwal's tasks and operations, by their numbers in TaskIds. */
public final class TaskFactory implements DataSerializableFactory {
    @Override
    public IdentifiedDataSerializable create(int number) {
        switch (number) {
            case TaskIds.RUN_TRANSACTION: return new RunTransaction(false, false);
            case TaskIds.APPEND_BATCH: return new AppendBatch();
            case TaskIds.PUBLISH_BOUND: return new ClockBounds.Publish();
            case TaskIds.READ_BOUNDS: return new ClockBounds.Read();
            case TaskIds.RENEW_LEASE: return new Leases.Renew();
            case TaskIds.REMAINING_LEASE: return new Leases.Remaining();
            case TaskIds.ASK_HISTORY: return new HistoryRequests.Ask();
            case TaskIds.BULK_ON_KEYS: return new BulkEntryOperations.OnKeys();
            case TaskIds.BULK_ON_ALL: return new BulkEntryOperations.OnAll();
            case TaskIds.BULK_ON_MATCHES: return new BulkEntryOperations.OnMatches();
            case TaskIds.RUN_CONDITIONAL: return new RunTransaction(true, false);
            case TaskIds.ASK_PEER: return new HistoryRequests.AskPeer();
            case TaskIds.REPORT_LINKS: return new LinkMonitor.ReportLinks();
            case TaskIds.BACKUP_CHECK: return new BackupCheck();
            case TaskIds.KEY_PREFIX: return new KeyPrefix();
            case TaskIds.RUN_TIMED: return new RunTransaction(false, true);
            case TaskIds.RUN_TIMED_CONDITIONAL: return new RunTransaction(true, true);
            case TaskIds.LOCK_KEYS: return new LockKeys();
            case TaskIds.UNLOCK_KEYS: return new UnlockKeys();
            case TaskIds.APPLY_CHANGES: return new ApplyChanges();
            case TaskIds.PARTITION_STEP: return new PartitionStep();
            case TaskIds.MEMBER_STEP: return new MemberStep();
            case TaskIds.IS_EXPANDED: return new IsExpanded();
            case TaskIds.FORCE_UNLOCK: return new ForceUnlock();
            case TaskIds.READ_LATEST: return new LatestTimestamps.Read();
            case TaskIds.OF_STRUCTURE: return new OfStructure();
            case TaskIds.ASK_FIGURES: return new HistoryRequests.AskFigures();
            default: throw new IllegalArgumentException(TaskIds.UNKNOWN + number);
        }
    }
}
