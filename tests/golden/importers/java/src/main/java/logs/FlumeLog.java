package logs;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.apache.flume.Context;
import org.apache.flume.Event;
import org.apache.flume.Transaction;
import org.apache.flume.channel.file.FileChannel;
import org.apache.flume.event.EventBuilder;

/** Flume's file channel with two data folders: puts and takes that are committed, rolled back, or open at the end. */
final class FlumeLog {
    private FlumeLog() {}

    static FileChannel channel(File folder) {
        Context settings = new Context();
        settings.put("checkpointDir", new File(folder, "checkpoint").getAbsolutePath());
        settings.put("dataDirs", new File(folder, "data1").getAbsolutePath() + "," + new File(folder, "data2").getAbsolutePath());
        settings.put("capacity", "1000000");
        settings.put("transactionCapacity", "10000");
        settings.put("minimumRequiredSpace", "1048576");
        FileChannel channel = new FileChannel();
        channel.setName("logs");
        channel.configure(settings);
        channel.start();
        return channel;
    }

    static void write(File folder, int changes, long seed) {
        Random random = new Random(seed);
        for (int start = 0; start < 2; start++) {
            FileChannel channel = channel(folder);
            for (int change = 0; change < changes / 2; change++) {
                boolean puts = random.nextInt(3) != 0;
                int many = 1 + random.nextInt(4);
                Transaction transaction = channel.getTransaction();
                transaction.begin();
                boolean found = true;
                for (int item = 0; item < many && found; item++) {
                    if (puts) {
                        channel.put(event(random, start + "-" + change + "-" + item));
                    } else {
                        found = channel.take() != null;
                    }
                }
                if (random.nextInt(4) == 0) {
                    transaction.rollback();
                } else {
                    transaction.commit();
                }
                transaction.close();
            }
            if (start == 0) {
                channel.stop();
            } else { // open when the process ends
                Transaction open = channel.getTransaction();
                open.begin();
                channel.put(event(random, "open"));
            }
        }
    }

    private static Event event(Random random, String name) {
        Map<String, String> headers = new HashMap<>();
        headers.put("name", name);
        if (random.nextBoolean()) {
            headers.put("grüße", "\uD83D\uDE80");
        }
        byte[] body = new byte[random.nextInt(40)];
        random.nextBytes(body);
        return EventBuilder.withBody(random.nextBoolean() ? body : name.getBytes(StandardCharsets.UTF_8), headers);
    }

    /** A line for each event that the channel gives, in order. They stay in it. */
    static void read(File folder) {
        FileChannel channel = channel(folder);
        Transaction transaction = channel.getTransaction();
        transaction.begin();
        for (Event event = channel.take(); event != null; event = channel.take()) {
            System.out.println("{\"headers\":" + Json.texts(event.getHeaders()) + ",\"body\":"
                + Json.text(Base64.getEncoder().encodeToString(event.getBody())) + "}");
        }
        transaction.rollback();
        transaction.close();
        channel.stop();
    }
}
