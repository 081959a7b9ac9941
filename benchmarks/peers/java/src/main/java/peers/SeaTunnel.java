package peers;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.seatunnel.engine.imap.storage.file.IMapFileStorage;

/**
 * SeaTunnel's storage of a map in files, on the local file system of a Hadoop that calls fsync. Each producer has a storage of
 * its own: the storage's ring takes one producer, and two of them lose each other's entries.
 */
final class SeaTunnel implements Peer {
    private final File folder;
    private final IMapFileStorage[] storages;

    SeaTunnel(File folder, int producers) {
        this.folder = folder;
        storages = new IMapFileStorage[producers];
        for (int producer = 0; producer < producers; producer++) {
            storages[producer] = storage(producer);
        }
    }

    private IMapFileStorage storage(int producer) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("storage.type", "hdfs");
        settings.put("fs.defaultFS", "file:///");
        settings.put("namespace", folder.getAbsolutePath());
        settings.put("businessName", "map" + producer);
        settings.put("clusterName", "bench");
        settings.put("writeDataTimeoutMilliseconds", 60_000L);
        IMapFileStorage storage = new IMapFileStorage();
        storage.initialize(settings);
        return storage;
    }

    @Override
    public void put(int producer, List<Entry> entries) throws IOException {
        if (entries.size() == 1) {
            Entry only = entries.get(0);
            if (!storages[producer].store(only.key, text(only.value))) {
                throw new IOException("SeaTunnel's storage did not store " + only.key);
            }
            return;
        }
        Map<Object, Object> all = new HashMap<>();
        for (Entry entry : entries) {
            all.put(entry.key, text(entry.value));
        }
        if (!storages[producer].storeAll(all).isEmpty()) {
            throw new IOException("SeaTunnel's storage did not store all entries");
        }
    }

    /** Its serializer refuses byte[], so a value is a text. */
    private static String text(byte[] value) {
        return new String(value, StandardCharsets.ISO_8859_1);
    }

    @Override
    public long recover() throws IOException {
        long count = 0;
        for (IMapFileStorage storage : storages) {
            count += storage.loadAll().size();
        }
        return count;
    }

    @Override
    public void close() {
        for (IMapFileStorage storage : storages) {
            storage.destroy(false);
        }
    }
}
