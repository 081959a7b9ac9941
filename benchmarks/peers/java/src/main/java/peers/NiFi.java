package peers;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.nifi.wali.SequentialAccessWriteAheadLog;
import org.wali.MinimalLockingWriteAheadLog;
import org.wali.SerDe;
import org.wali.SerDeFactory;
import org.wali.SyncListener;
import org.wali.UpdateType;
import org.wali.WriteAheadRepository;

/** NiFi's two write-ahead logs. Each update is forced to the disk. */
final class NiFi implements Peer {
    private static final int PARTITIONS = 64;

    private final WriteAheadRepository<Entry> log;

    private NiFi(WriteAheadRepository<Entry> log) {
        this.log = log;
    }

    static NiFi sequential(File folder) throws IOException {
        return new NiFi(new SequentialAccessWriteAheadLog<>(folder, new Factory()));
    }

    static NiFi minimalLocking(File folder) throws IOException {
        SyncListener none = SyncListener.NOP_SYNC_LISTENER;
        return new NiFi(new MinimalLockingWriteAheadLog<>(folder.toPath(), PARTITIONS, new Factory(), none));
    }

    @Override
    public void put(int producer, List<Entry> entries) throws IOException {
        log.update(entries, true);
    }

    @Override
    public long recover() throws IOException {
        return log.recoverRecords().size();
    }

    @Override
    public void compact() throws IOException {
        log.checkpoint();
    }

    @Override
    public void close() throws IOException {
        log.shutdown();
    }

    private static final class Factory implements SerDeFactory<Entry> {
        @Override
        public SerDe<Entry> createSerDe(String encoding) {
            return new Serializer();
        }

        @Override
        public Object getRecordIdentifier(Entry record) {
            return record.key;
        }

        @Override
        public UpdateType getUpdateType(Entry record) {
            return UpdateType.CREATE;
        }

        @Override
        public String getLocation(Entry record) {
            return null;
        }
    }

    private static final class Serializer implements SerDe<Entry> {
        @Override
        public void serializeEdit(Entry previous, Entry record, DataOutputStream out) throws IOException {
            serializeRecord(record, out);
        }

        @Override
        public void serializeRecord(Entry record, DataOutputStream out) throws IOException {
            out.writeUTF(record.key);
            out.writeInt(record.value.length);
            out.write(record.value);
        }

        @Override
        public Entry deserializeEdit(DataInputStream in, Map<Object, Entry> states, int version) throws IOException {
            return deserializeRecord(in, version);
        }

        @Override
        public Entry deserializeRecord(DataInputStream in, int version) throws IOException {
            String key = in.readUTF();
            byte[] value = new byte[in.readInt()];
            in.readFully(value);
            return new Entry(key, value);
        }

        @Override
        public Object getRecordIdentifier(Entry record) {
            return record.key;
        }

        @Override
        public UpdateType getUpdateType(Entry record) {
            return UpdateType.CREATE;
        }

        @Override
        public String getLocation(Entry record) {
            return null;
        }

        @Override
        public int getVersion() {
            return 1;
        }
    }
}
