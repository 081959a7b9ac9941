package logs;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Random;
import org.apache.nifi.controller.repository.FlowFileRecord;
import org.apache.nifi.controller.repository.ReconstitutedSerializedRepositoryRecord;
import org.apache.nifi.controller.repository.RepositoryRecordType;
import org.apache.nifi.controller.repository.SerializedRepositoryRecord;
import org.apache.nifi.controller.repository.StandardFlowFileRecord;
import org.apache.nifi.controller.repository.StandardRepositoryRecordSerdeFactory;
import org.apache.nifi.controller.repository.claim.StandardContentClaim;
import org.apache.nifi.controller.repository.claim.StandardResourceClaimManager;
import org.apache.nifi.wali.SequentialAccessWriteAheadLog;
import org.wali.MinimalLockingWriteAheadLog;
import org.wali.SyncListener;
import org.wali.WriteAheadRepository;

/** NiFi's two write-ahead logs with the serializer of its FlowFile repository: creates, updates, deletes, swaps, a checkpoint. */
final class NiFiLog {
    private static final int PARTITIONS = 3;
    private static final StandardResourceClaimManager CLAIMS = new StandardResourceClaimManager();

    private NiFiLog() {}

    static WriteAheadRepository<SerializedRepositoryRecord> open(File folder, boolean sequential) throws IOException {
        StandardRepositoryRecordSerdeFactory serializers = new StandardRepositoryRecordSerdeFactory(CLAIMS);
        return sequential
            ? new SequentialAccessWriteAheadLog<>(folder, serializers)
            : new MinimalLockingWriteAheadLog<>(folder.toPath(), PARTITIONS, serializers, SyncListener.NOP_SYNC_LISTENER);
    }

    static void write(File folder, boolean sequential, int changes, long seed) throws IOException {
        Random random = new Random(seed);
        WriteAheadRepository<SerializedRepositoryRecord> log = open(folder, sequential);
        log.recoverRecords();
        List<Long> live = new ArrayList<>();
        long next = 1;
        for (int change = 0; change < changes; change++) {
            List<SerializedRepositoryRecord> records = new ArrayList<>();
            for (int item = 1 + random.nextInt(3); item > 0; item--) {
                int what = live.isEmpty() ? 0 : random.nextInt(4);
                if (what < 2) {
                    live.add(next);
                    records.add(record(random, next++, RepositoryRecordType.CREATE, null));
                } else if (what == 2) {
                    records.add(record(random, live.get(random.nextInt(live.size())), RepositoryRecordType.UPDATE, null));
                } else {
                    long gone = live.remove(random.nextInt(live.size()));
                    records.add(record(random, gone, RepositoryRecordType.DELETE, null));
                }
            }
            log.update(records, true);
            if (change == changes / 2) {
                long gone = live.remove(0);
                log.update(List.of(record(random, gone, RepositoryRecordType.SWAP_OUT, "swap/1-queue.swap")), true);
                log.checkpoint();
            }
        }
        if (changes > 1_000) { // above 5 MiB: an overflow file
            List<SerializedRepositoryRecord> records = new ArrayList<>();
            for (int item = 0; item < 60_000; item++) {
                records.add(record(random, next++, RepositoryRecordType.CREATE, null));
            }
            log.update(records, true);
        }
        // no shutdown: the process ends as a crash does
    }

    private static SerializedRepositoryRecord record(Random random, long id, RepositoryRecordType type, String swap) {
        StandardFlowFileRecord.Builder flowFile = new StandardFlowFileRecord.Builder()
            .id(id).entryDate(1_700_000_000_000L + id).lineageStart(1_700_000_000_000L, id).lastQueued(1_700_000_000_001L, id)
            .size(random.nextInt(1000)).addAttribute("uuid", "uuid-" + id).addAttribute("n", Integer.toString(random.nextInt()))
            .addAttribute("grüße", "\uD83D\uDE80");
        if (random.nextBoolean()) {
            StandardContentClaim claim = new StandardContentClaim(
                CLAIMS.newResourceClaim("default", "1", "claim-" + id, false, false), random.nextInt(100));
            claim.setLength(random.nextInt(100));
            flowFile.contentClaim(claim).contentClaimOffset(random.nextInt(10));
        }
        return new ReconstitutedSerializedRepositoryRecord.Builder()
            .flowFileRecord(flowFile.build()).queueIdentifier("queue-" + random.nextInt(3)).type(type).swapLocation(swap).build();
    }

    /** A line for each record that the log recovers. */
    static void read(File folder, boolean sequential) throws IOException {
        Collection<SerializedRepositoryRecord> records = open(folder, sequential).recoverRecords();
        for (SerializedRepositoryRecord record : records) {
            FlowFileRecord flowFile = record.getFlowFileRecord();
            String claim = flowFile.getContentClaim() == null ? "null"
                : Json.text(flowFile.getContentClaim().getResourceClaim().getId() + " " + flowFile.getContentClaim().getOffset() + " "
                    + flowFile.getContentClaim().getLength() + " " + flowFile.getContentClaimOffset());
            System.out.println("{\"id\":" + flowFile.getId() + ",\"queue\":" + Json.text(record.getQueueIdentifier())
                + ",\"attributes\":" + Json.texts(flowFile.getAttributes()) + ",\"size\":" + flowFile.getSize()
                + ",\"entry_date\":" + flowFile.getEntryDate() + ",\"claim\":" + claim + "}");
        }
    }
}
