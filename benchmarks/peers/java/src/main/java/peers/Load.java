package peers;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;

/** Producers that put transactions of some entries each, one after the other. */
final class Load {
    private final Peer peer;
    private final int producers;
    private final int batch;
    private final double seconds;
    private final double warmUp;
    private final long count;
    private final int keys;
    private final boolean compacts;
    private final boolean takes;
    private final byte[] pool;
    private final int size;
    private final AtomicLong entries = new AtomicLong();
    private final ConcurrentLinkedQueue<long[]> waits = new ConcurrentLinkedQueue<>();
    private volatile boolean counting;
    private volatile boolean stopped;
    private volatile Exception failure;

    Load(Peer peer, int producers, Map<String, String> arguments) {
        this.peer = peer;
        this.producers = producers;
        batch = Integer.parseInt(arguments.getOrDefault("batch", "1"));
        seconds = Double.parseDouble(arguments.getOrDefault("seconds", "1"));
        warmUp = Double.parseDouble(arguments.getOrDefault("warm_up", "1"));
        count = Long.parseLong(arguments.getOrDefault("count", "0"));
        keys = Integer.parseInt(arguments.getOrDefault("keys", "0"));
        compacts = arguments.containsKey("compact");
        takes = arguments.containsKey("takes");
        size = Integer.parseInt(arguments.getOrDefault("value", "100"));
        pool = new byte[size + (1 << 20)];
        new Random(1).nextBytes(pool);
        for (int place = 0; place < pool.length; place++) {
            pool[place] &= 0x7F;
        }
    }

    /** Puts `count` entries from one producer. */
    String fill() throws IOException {
        long started = System.nanoTime();
        for (long first = 0; first < count; first += batch) {
            peer.put(0, entries(0, first, (int) Math.min(batch, count - first)));
        }
        double elapsed = (System.nanoTime() - started) / 1e9;
        if (compacts) {
            peer.compact();
        }
        return String.format(Locale.ROOT, "{\"count\": %d, \"seconds\": %f}", count, elapsed);
    }

    /** Puts for a time. What was put while it warmed up does not count. */
    String run() throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int producer = 0; producer < producers; producer++) {
            int number = producer;
            Thread thread = new Thread(() -> produce(number));
            threads.add(thread);
            thread.start();
        }
        Thread.sleep((long) (warmUp * 1000));
        long started = System.nanoTime();
        counting = true;
        Thread.sleep((long) (seconds * 1000));
        while (entries.get() == 0 && failure == null) {
            Thread.sleep(10);
        }
        stopped = true;
        double elapsed = (System.nanoTime() - started) / 1e9;
        long done = entries.get();
        for (Thread thread : threads) {
            thread.join();
        }
        if (failure != null) {
            throw failure;
        }
        return String.format(Locale.ROOT, "{\"count\": %d, \"seconds\": %f, %s}", done, elapsed, percentiles());
    }

    private void produce(int producer) {
        long[] mine = new long[1 << 17];
        int samples = 0;
        try {
            for (long first = 0; !stopped; first += batch) {
                List<Entry> transaction = entries(producer, first, batch);
                long begun = System.nanoTime();
                peer.put(producer, transaction);
                if (takes) {
                    peer.take(batch);
                }
                if (counting && !stopped) {
                    entries.addAndGet(batch);
                    if (samples < mine.length) {
                        mine[samples++] = System.nanoTime() - begun;
                    }
                }
            }
        } catch (IOException | RuntimeException error) {
            failure = error;
        }
        waits.add(Arrays.copyOf(mine, samples));
    }

    private List<Entry> entries(int producer, long first, int many) {
        List<Entry> made = new ArrayList<>(many);
        for (int place = 0; place < many; place++) {
            long number = keys == 0 ? first + place : (first + place) % keys;
            int offset = (int) ((first + place) * 7919 % (1 << 20));
            byte[] value = Arrays.copyOfRange(pool, offset, offset + size);
            made.add(new Entry(key(producer, number), value));
        }
        return made;
    }

    /** The key of a number: eleven letters. String.format would take longer than some peers do. */
    private static String key(int producer, long number) {
        return Long.toString(10_000_000_000L + producer * 100_000_000L + number);
    }

    private String percentiles() {
        long[] all = waits.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        if (all.length == 0) {
            return "\"p50\": 0, \"p99\": 0, \"p999\": 0, \"max\": 0";
        }
        return String.format(Locale.ROOT, "\"p50\": %f, \"p99\": %f, \"p999\": %f, \"max\": %f",
            at(all, 0.5), at(all, 0.99), at(all, 0.999), all[all.length - 1] / 1e6);
    }

    private static double at(long[] sorted, double part) {
        return sorted[Math.min(sorted.length - 1, (int) (sorted.length * part))] / 1e6;
    }
}
