package logs;

import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.seatunnel.engine.imap.storage.file.IMapFileStorage;

/** The IMap storage of SeaTunnel on local files: a business of values of all classes, deletes, and two starts. */
final class SeaTunnelLog {
    private SeaTunnelLog() {}

    /** A class of a user: the serializer writes its fields. */
    public static final class Job {
        public String name = "job";
        public int state = 3;
    }

    static IMapFileStorage storage(File folder) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("storage.type", "hdfs");
        settings.put("fs.defaultFS", "file:///");
        settings.put("namespace", folder.getAbsolutePath());
        settings.put("businessName", "jobs");
        settings.put("clusterName", "cluster");
        settings.put("writeDataTimeoutMilliseconds", 60_000L);
        IMapFileStorage storage = new IMapFileStorage();
        storage.initialize(settings);
        return storage;
    }

    static void write(File folder, int changes, long seed) throws Exception {
        Random random = new Random(seed);
        for (int start = 0; start < 2; start++) {
            IMapFileStorage storage = storage(folder);
            for (int change = 0; change < changes / 2; change++) {
                String key = "key-" + random.nextInt(Math.max(4, changes / 3));
                boolean done = random.nextInt(5) == 0 ? storage.delete(key) : storage.store(key, value(random));
                if (!done) {
                    throw new IllegalStateException("not stored: " + key);
                }
                Thread.sleep(2); // a timestamp is a millisecond, and the library leaves open which of two counts
            }
            if (start == 0) {
                storage.store("gone", "deleted by the next start");
                Thread.sleep(2);
            }
            if (start == 1) {
                storage.delete("gone");
                Thread.sleep(2);
                for (Object key : new Object[] {7L, -7L, 1L << 40, Long.MIN_VALUE, 7_000, true, 2.5, "grüße \uD83D\uDE80"}) {
                    storage.store(key, key);
                    Thread.sleep(2);
                }
                storage.store("job", new Job());
                Thread.sleep(2);
                storage.store("list", new ArrayList<>(List.of("a", 1)));
            }
            storage.destroy(false);
        }
    }

    private static Object value(Random random) {
        switch (random.nextInt(10)) {
            case 0: return random.nextLong();
            case 1: return random.nextInt();
            case 2: return -random.nextInt(1000);
            case 3: return (short) random.nextInt();
            case 4: return (byte) random.nextInt();
            case 5: return random.nextBoolean();
            case 6: return random.nextDouble();
            case 7: return random.nextFloat();
            case 8: return (char) ('a' + random.nextInt(26));
            default: return "value ".repeat(random.nextInt(20)) + random.nextInt();
        }
    }

    /** A line for each key: its class and text, and those of the value. */
    static void read(File folder) {
        storage(folder).loadAll().forEach((key, value) ->
            System.out.println("{\"key\":" + Json.text(key.toString()) + ",\"key_class\":" + Json.text(key.getClass().getName())
                + ",\"value\":" + Json.text(value.toString()) + ",\"value_class\":" + Json.text(value.getClass().getName()) + "}"));
    }
}
