package kvwal.member;

import com.hazelcast.map.impl.operation.BulkEntryOperations;
import com.hazelcast.nio.serialization.DataSerializableFactory;
import com.hazelcast.nio.serialization.IdentifiedDataSerializable;
import kvwal.backups.BackupCheck;
import kvwal.clients.KeyPrefix;
import kvwal.clock.ClockBounds;
import kvwal.failover.AppendBatch;
import kvwal.history.HistoryRequests;
import kvwal.node.TaskIds;
import kvwal.quorum.Leases;
import kvwal.quorum.LinkMonitor;
import kvwal.transactions.ApplyChange;
import kvwal.transactions.ForgetIntent;
import kvwal.transactions.ReadTimestamp;
import kvwal.transactions.RunTransaction;
import kvwal.transactions.TakeOverIntent;

/** Factory of kvwal's tasks and operations, by their numbers in TaskIds. */
public final class TaskFactory implements DataSerializableFactory {
    @Override
    public IdentifiedDataSerializable create(int number) {
        switch (number) {
            case TaskIds.RUN_TRANSACTION: return new RunTransaction();
            case TaskIds.APPLY_CHANGE: return new ApplyChange();
            case TaskIds.TAKE_OVER_INTENT: return new TakeOverIntent();
            case TaskIds.FORGET_INTENT: return new ForgetIntent();
            case TaskIds.APPEND_BATCH: return new AppendBatch();
            case TaskIds.PUBLISH_BOUND: return new ClockBounds.Publish();
            case TaskIds.READ_BOUNDS: return new ClockBounds.Read();
            case TaskIds.RENEW_LEASE: return new Leases.Renew();
            case TaskIds.REMAINING_LEASE: return new Leases.Remaining();
            case TaskIds.ASK_HISTORY: return new HistoryRequests.Ask();
            case TaskIds.BULK_ON_KEYS: return new BulkEntryOperations.OnKeys();
            case TaskIds.BULK_ON_ALL: return new BulkEntryOperations.OnAll();
            case TaskIds.BULK_ON_MATCHES: return new BulkEntryOperations.OnMatches();
            case TaskIds.READ_TIMESTAMP: return new ReadTimestamp();
            case TaskIds.RUN_CONDITIONAL: return new RunTransaction.Conditional();
            case TaskIds.ASK_PEER: return new HistoryRequests.AskPeer();
            case TaskIds.REPORT_LINKS: return new LinkMonitor.ReportLinks();
            case TaskIds.BACKUP_CHECK: return new BackupCheck();
            case TaskIds.KEY_PREFIX: return new KeyPrefix();
            default: throw new IllegalArgumentException("there is no task " + number);
        }
    }
}
